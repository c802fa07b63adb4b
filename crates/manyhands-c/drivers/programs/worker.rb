# The worker of Ruby's sqlite3; README.md says what a worker does.
require "json"
require "sqlite3"

path, seconds, job, writer = ARGV
seconds = seconds.to_f
writer = writer.to_i
database = SQLite3::Database.new(path)
database.busy_timeout = 5000
database.execute("PRAGMA synchronous=FULL")
id_sum = 0

def expect(holds, what)
  raise "wrong answer: #{what}" unless holds
end

prepared = case job
           when "prepared" then database.prepare("INSERT INTO event (writer, n) VALUES (?, ?)")
           when "select" then database.prepare("SELECT n FROM item WHERE id = ?")
           end

jobs = {
  "insert" => ->(n) { database.execute("INSERT INTO event (writer, n) VALUES (#{writer}, #{n})") },
  "read-then-write" => lambda do |_|
    # Its block form rolls back when the block raises.
    database.transaction do
      count = database.get_first_value("SELECT n FROM counter WHERE id = 1")
      database.execute("UPDATE counter SET n = ? WHERE id = 1", [count + 1])
    end
  ensure
    # Not when COMMIT does.
    database.rollback if database.transaction_active?
  end,
  "prepared" => lambda do |n|
    prepared.execute!(writer, n)
    id_sum += database.last_insert_row_id
    expect(database.changes == 1, "changes")
  end,
  "select" => lambda do |n|
    id = n % 1000 + 1
    expect(prepared.execute!(id) == [[id * 7]], "item #{id}")
  end
}

version = database.get_first_value("SELECT sqlite_version()")
$stdout.sync = true
puts "ready"
$stdin.gets
work = jobs[job]
done = errors = n = 0
wait = 0.0
first_error = ""
clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
began = now = clock.call
while now - began < seconds
  begin
    work.call(n)
    done += 1
  rescue SQLite3::Exception, RuntimeError => error
    errors += 1
    first_error = error.message if first_error.empty?
  end
  n += 1
  before = now
  now = clock.call
  wait = [wait, now - before].max
end
puts JSON.generate(done: done, errors: errors, first_error: first_error, wait_ms_max: wait * 1000,
                   seconds: now - began, id_sum: id_sum, sqlite: version)
