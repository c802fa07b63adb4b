# What stock SQLite under Rails can be told, for any version of Rails: `ruby -r bench/rails/stock.rb`, with the mode in STOCK_MODE.
#
#   deferred    BEGIN, and busy_timeout: Rails until 7.1
#   immediate   BEGIN IMMEDIATE, and busy_timeout, which waits with the GVL
#   handler     BEGIN IMMEDIATE, and a busy handler that sleeps for 1 ms without the GVL: Rails 8
require "active_support"
require "active_support/lazy_load_hooks"

module StockMode
  TIMEOUT_MS = 5000
  MODE = ENV.fetch("STOCK_MODE")
  raise "STOCK_MODE=#{MODE} is none of deferred, immediate, handler" unless %w[deferred immediate handler].include?(MODE)

  def configure_connection
    super
    database = @raw_connection || @connection # Rails 7.1 and later, or earlier
    database.execute("PRAGMA journal_mode = wal")
    database.execute("PRAGMA synchronous = #{ENV.fetch('SYNCHRONOUS')}")
    database.busy_timeout(TIMEOUT_MS)
    wait_in_steps(database) if MODE == "handler"
  end

  # Ruby's `sleep` lets the other threads run. The gem has this handler itself from 2.0 on.
  def wait_in_steps(database)
    return database.busy_handler_timeout = TIMEOUT_MS if database.respond_to?(:busy_handler_timeout=)

    ends = nil
    database.busy_handler do |calls|
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :millisecond)
      ends = now + TIMEOUT_MS if calls.zero?
      now < ends && sleep(0.001)
    end
  end

  def begin_db_transaction
    return super if MODE == "deferred"

    log("begin immediate transaction", "TRANSACTION") do
      if respond_to?(:with_raw_connection, true)
        with_raw_connection(allow_retry: true, materialize_transactions: false) { |database| database.transaction(:immediate) }
      else
        @connection.transaction(:immediate)
      end
    end
  end
end

ActiveSupport.on_load(:active_record_sqlite3adapter) { prepend StockMode }
