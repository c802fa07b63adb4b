# frozen_string_literal: true

# Several processes, each of which reads and then writes in the transactions that ActiveRecord makes by itself. With stock SQLite about half of
# them fail: somebody else has written in between.

require "open3"
require "rbconfig"
require_relative "database_case"

class ProcessesTest < DatabaseCase
  PROCESSES = 4
  # Of each process.
  TIMES = 100
  SHORTLY = 25
  PROGRAM = File.expand_path("programs/counter.rb", __dir__)

  def count_together(adapter, times, *mode)
    connection.create_table(:counters) { |t| t.integer :n, null: false, default: 0 }
    connection.execute("INSERT INTO counters (id) VALUES (1)")
    outputs = Array.new(PROCESSES) do
      Thread.new { Open3.capture2e(RbConfig.ruby, PROGRAM, adapter, path, times.to_s, *mode) }
    end.map(&:value)
    outputs.each { |output, status| assert status.success?, output }
    [outputs.map(&:first).reject(&:empty?), connection.select_value("SELECT n FROM counters")]
  end

  def test_plain_transactions_never_fail_and_lose_nothing
    assert_equal [[], PROCESSES * TIMES], count_together("manyhands", TIMES)
  end

  def test_with_retry
    assert_equal [[], PROCESSES * SHORTLY], count_together("manyhands", SHORTLY, "retry")
  end

  def test_with_a_locked_read
    assert_equal [[], PROCESSES * SHORTLY], count_together("manyhands", SHORTLY, "lock")
  end

  # The other tests can fail.
  def test_stock_sqlite_fails
    errors, sum = count_together("sqlite3", TIMES)
    refute_empty errors
    assert_operator sum, :<, PROCESSES * TIMES
  end
end
