# frozen_string_literal: true

# Where a step of a statement is short: up to there it keeps the GVL (src/pace.rs).
#
#   ruby -Ilib measure_gvl.rb [SECONDS]
#
# Reads of several lengths, with the GVL kept and with the GVL released, by one thread alone, by two that only read, and by two beside one
# that executes Ruby code. For each: reads in a second, the rounds of the thread beside in a second, and the longest time for which a thread
# that sleeps 1 ms at a time did not run.

require "manyhands"

SECONDS = (ARGV[0] || 0.4).to_f
SQL = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a LIMIT ?) SELECT count(*) FROM a"

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

def reader(rows, ends)
  database = Manyhands::Database.new(":memory:")
  statement = database.prepare(SQL)
  statement.bind_param(1, rows)
  count = 0
  while now < ends
    statement.step
    statement.reset!
    count += 1
  end
  count
end

def busy(ends)
  rounds = 0
  while now < ends
    100.times { |n| n.to_s }
    rounds += 1
  end
  rounds
end

def longest_gap(ends)
  last = now
  longest = 0
  while last < ends
    sleep(0.001)
    time = now
    longest = [longest, time - last].max
    last = time
  end
  longest
end

def measure(rows, readers, is_beside_busy)
  ends = now + SECONDS
  gap = Thread.new { longest_gap(ends) }
  beside = Thread.new { is_beside_busy ? busy(ends) : 0 }
  reads = Array.new(readers) { Thread.new { reader(rows, ends) } }.sum(&:value)
  [(reads / SECONDS).round, (beside.value / SECONDS).round, (gap.value * 1000).round(1)]
end

CASES = { "1 thread" => [1, false], "2 threads" => [2, false], "2 beside Ruby code" => [2, true] }.freeze
puts "#{RUBY_DESCRIPTION}, #{SECONDS} s each: reads/s, rounds/s, longest gap in ms"
[10, 50, 200, 500, 1000, 2000, 5000, 20_000].each do |rows|
  Manyhands.short_step_us = 10_000_000
  alone, = measure(rows, 1, false)
  CASES.each do |name, (readers, is_beside_busy)|
    kept, released = [10_000_000, 0].map do |us|
      Manyhands.short_step_us = us
      measure(rows, readers, is_beside_busy)
    end
    puts format("%7.0f us  %-20s kept %7d %6d %6.1f   released %7d %6d %6.1f   released/kept %.2f",
                1e6 / alone, name, *kept, *released, released[0].fdiv(kept[0]))
  end
end
