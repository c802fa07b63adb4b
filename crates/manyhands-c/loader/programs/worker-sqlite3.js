// The worker of node's sqlite3, which answers through callbacks; drivers/programs/README.md says what a worker does. It knows two of the jobs.
"use strict";
const fs = require("node:fs");
const sqlite3 = require("sqlite3");

const [path, seconds, job, writer] = process.argv.slice(2);
const database = new sqlite3.Database(path);
database.configure("busyTimeout", 5000);
const ask = (method, ...words) =>
  new Promise((answer, refuse) => database[method](...words, (error, row) => (error ? refuse(error) : answer(row))));

async function readThenWrite() {
  try {
    await ask("exec", "BEGIN");
    const { n } = await ask("get", "SELECT n FROM counter WHERE id = 1");
    await ask("run", "UPDATE counter SET n = ? WHERE id = 1", [n + 1]);
    await ask("exec", "COMMIT");
  } catch (error) {
    // Where BEGIN or COMMIT has ended it, there is nothing to roll back.
    await ask("exec", "ROLLBACK").catch(() => {});
    throw error;
  }
}

const jobs = {
  insert: (n) => ask("exec", `INSERT INTO event (writer, n) VALUES (${writer}, ${n})`),
  "read-then-write": readThenWrite,
};

async function main() {
  await ask("exec", "PRAGMA synchronous=FULL");
  const { sqlite } = await ask("get", "SELECT sqlite_version() AS sqlite");
  fs.writeSync(1, "ready\n");
  fs.readSync(0, Buffer.alloc(1));
  const work = jobs[job];
  let [done, errors, wait, n, firstError] = [0, 0, 0, 0, ""];
  const began = performance.now();
  let now = began;
  while (now - began < seconds * 1000) {
    try {
      await work(n++);
      done++;
    } catch (error) {
      errors++;
      firstError ||= error.message;
    }
    const before = now;
    now = performance.now();
    wait = Math.max(wait, now - before);
  }
  const told = { done, errors, first_error: firstError, wait_ms_max: wait, seconds: (now - began) / 1000, id_sum: 0, sqlite };
  fs.writeSync(1, JSON.stringify(told) + "\n");
}

main();
