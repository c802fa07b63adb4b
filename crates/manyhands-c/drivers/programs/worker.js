// The worker of node's better-sqlite3; README.md says what a worker does.
"use strict";
const fs = require("node:fs");
const Database = require("better-sqlite3");

const [path, seconds, job, writer] = process.argv.slice(2);
const database = new Database(path, { timeout: 5000 });
database.pragma("synchronous = FULL");
let idSum = 0;

function expect(holds, what) {
  if (!holds) throw new Error(`wrong answer: ${what}`);
}

const insertEvent = database.prepare("INSERT INTO event (writer, n) VALUES (?, ?)");
const selectItem = database.prepare("SELECT n FROM item WHERE id = ?");
const selectCounter = database.prepare("SELECT n FROM counter WHERE id = 1");
const updateCounter = database.prepare("UPDATE counter SET n = ? WHERE id = 1");
// The driver's transaction begins with BEGIN, and rolls back when the function throws.
const countOneMore = database.transaction(() => updateCounter.run(selectCounter.get().n + 1));

const jobs = {
  insert: (n) => database.exec(`INSERT INTO event (writer, n) VALUES (${writer}, ${n})`),
  "read-then-write": () => countOneMore(),
  prepared: (n) => {
    const { changes, lastInsertRowid } = insertEvent.run(writer, n);
    idSum += lastInsertRowid;
    expect(changes === 1, "changes");
  },
  select: (n) => {
    const id = (n % 1000) + 1;
    expect(selectItem.get(id).n === id * 7, `item ${id}`);
  },
};

const sqlite = database.prepare("SELECT sqlite_version()").pluck().get();
fs.writeSync(1, "ready\n");
fs.readSync(0, Buffer.alloc(1));
const work = jobs[job];
let [done, errors, wait, n, firstError] = [0, 0, 0, 0, ""];
const began = performance.now();
let now = began;
while (now - began < seconds * 1000) {
  try {
    work(n++);
    done++;
  } catch (error) {
    errors++;
    firstError ||= error.message;
  }
  const before = now;
  now = performance.now();
  wait = Math.max(wait, now - before);
}
const told = { done, errors, first_error: firstError, wait_ms_max: wait, seconds: (now - began) / 1000, id_sum: idSum, sqlite };
fs.writeSync(1, JSON.stringify(told) + "\n");
