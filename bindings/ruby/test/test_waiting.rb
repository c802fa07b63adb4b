# frozen_string_literal: true

# Waits: nobody stands still since another thread, fiber or process writes, and nobody waits with the GVL.

require_relative "helper"
require_relative "plain_scheduler"

class TestWaiting < DatabaseTest
  # Ends a test whose threads stand still, with a message.
  def soon(&block)
    Timeout.timeout(60, &block)
  end

  # Holds the turn while the block runs.
  def held(database)
    database.execute("BEGIN IMMEDIATE")
    database.execute("INSERT INTO item (n) VALUES (0)")
    yield
  ensure
    database.execute("ROLLBACK") if database.transaction_active?
  end

  # With stock SQLite and busy_timeout, the thread that waits keeps the GVL, and the one that it waits for cannot go on: both stand still
  # for the whole timeout.
  def test_two_threads_that_write_at_once_do_not_stand_still
    create.close
    writers = Array.new(2) do
      Thread.new do
        database = open
        database.busy_timeout = 3000
        20.times do
          database.transaction(:immediate) do
            n = database.get_first_value("SELECT max(n) FROM item").to_i
            sleep(0.001)
            database.execute("INSERT INTO item (n) VALUES (?)", [n + 1])
          end
        end
      end
    end
    soon { writers.each(&:join) }
    assert_equal 40, open.get_first_value("SELECT max(n) FROM item")
  end

  # A third thread needs the GVL 400 times while the second one waits, and the first one ends its transaction only then. If the second one
  # kept the GVL, it would wait in vain.
  def test_a_third_thread_ticks_while_one_waits_for_another
    holder = create
    waiter = open
    waiter.busy_timeout = 30_000
    held(holder) do
      blocked = Thread.new { waiter.execute("INSERT INTO item (n) VALUES (1)") }
      Thread.pass until blocked.stop?
      ticker = Thread.new { 400.times { sleep(0.001) } }
      ticker.join
      assert_predicate blocked, :alive?
      holder.execute("COMMIT")
      soon { blocked.join }
    end
    assert_equal 2, holder.get_first_value("SELECT count(*) FROM item")
  end

  def test_a_timeout_is_kept
    holder = create
    waiter = open
    waiter.busy_handler_timeout = 50
    held(holder) do
      assert_raises(Manyhands::BusyException) { waiter.execute("INSERT INTO item (n) VALUES (1)") }
    end
  end

  def test_a_busy_handler_is_asked_and_may_give_up
    holder = create
    waiter = open
    counts = []
    waiter.busy_handler do |count|
      counts << count
      count < 3
    end
    held(holder) do
      assert_raises(Manyhands::BusyException) { waiter.execute("INSERT INTO item (n) VALUES (1)") }
    end
    assert_equal [0, 1, 2, 3], counts
  end

  def test_what_a_busy_handler_raises_is_raised_by_the_call
    holder = create
    waiter = open
    waiter.busy_handler { raise ArgumentError, "enough" }
    held(holder) do
      error = assert_raises(ArgumentError) { waiter.execute("INSERT INTO item (n) VALUES (1)") }
      assert_equal "enough", error.message
    end
  end

  def test_kill_ends_a_wait
    holder = create
    waiter = open
    waiter.busy_timeout = 60_000
    held(holder) do
      blocked = Thread.new { waiter.execute("INSERT INTO item (n) VALUES (1)") }
      Thread.pass until blocked.stop?
      assert soon { blocked.kill.join }
    end
    waiter.execute("INSERT INTO item (n) VALUES (2)")
    assert_equal [[2]], holder.execute("SELECT n FROM item")
  end

  def test_a_transaction_whose_thread_is_killed_is_rolled_back
    database = create
    written = Queue.new
    thread = Thread.new do
      database.transaction do
        database.execute("INSERT INTO item (n) VALUES (1)")
        written << true
        sleep
      end
    end
    written.pop
    thread.kill.join
    refute_predicate database, :transaction_active?
    assert_equal 0, database.get_first_value("SELECT count(*) FROM item")
  end

  # An interrupted write ends its transaction, as in SQLite: what was raised is raised, not that there is nothing to roll back.
  def test_a_transaction_whose_write_is_interrupted_raises_what_has_interrupted_it
    database = create
    error = assert_raises(ArgumentError) do
      Timeout.timeout(0.1, ArgumentError) do
        database.transaction(:immediate) do
          database.execute("INSERT INTO item (n) VALUES (1)")
          database.execute("INSERT INTO item (n) #{ENDLESS}")
        end
      end
    end
    refute_nil error
    assert_equal 0, database.get_first_value("SELECT count(*) FROM item")
  end

  def test_a_timeout_of_rubys_ends_a_wait
    holder = create
    waiter = open
    waiter.busy_timeout = 60_000
    held(holder) do
      assert_raises(Timeout::Error) { Timeout.timeout(0.05) { waiter.execute("INSERT INTO item (n) VALUES (1)") } }
    end
    waiter.execute("INSERT INTO item (n) VALUES (2)")
    assert_equal [[2]], holder.execute("SELECT n FROM item")
  end

  ENDLESS = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT count(*) FROM a"

  # Of a file and in memory: the engine's check ends one, SQLite's progress handler the other.
  def test_a_timeout_of_rubys_ends_a_long_statement
    ["test.db", ":memory:"].each do |name|
      database = open(name)
      3.times { assert_raises(Timeout::Error) { Timeout.timeout(0.05) { database.execute(ENDLESS) } } }
      assert_equal 1, database.get_first_value("SELECT 1")
    end
  end

  def test_kill_ends_a_long_statement
    database = open
    thread = Thread.new { database.execute(ENDLESS) }
    sleep(0.02)
    assert soon { thread.kill.join }
    assert_equal 1, database.get_first_value("SELECT 1")
  end

  def test_interrupt_ends_a_long_statement_of_another_thread
    database = open
    thread = Thread.new { database.execute(ENDLESS) }
    thread.report_on_exception = false
    soon do
      until thread.join(0.01)
        database.interrupt
      end
    end
  rescue Manyhands::InterruptException => error
    assert_equal 9, error.code
  else
    flunk "the statement was not interrupted"
  end

  # A trap interrupts the wait for a moment; the write, and the transaction around it, go on.
  def test_a_trap_runs_during_a_wait_and_ends_nothing
    holder = create
    waiter = open
    caught = 0
    before = trap("USR1") { caught += 1 }
    holder.execute("BEGIN IMMEDIATE")
    signaller = Thread.new do
      sleep(0.05)
      Process.kill("USR1", Process.pid)
      sleep(0.1)
      holder.execute("COMMIT")
    end
    waiter.execute("INSERT INTO item (n) VALUES (1)")
    signaller.join
    assert_equal 1, caught
    assert_equal 1, waiter.changes
  ensure
    trap("USR1", before || "DEFAULT")
  end

  def test_threads_share_a_connection
    database = create
    threads = Array.new(8) do |writer|
      Thread.new { 25.times { |n| database.execute("INSERT INTO item (n) VALUES (?)", [writer * 100 + n]) } }
    end
    soon { threads.each(&:join) }
    assert_equal [200, 200], database.get_first_row("SELECT count(*), count(DISTINCT n) FROM item")
  end

  # The thread that executes a function needs the GVL while others wait for its connection.
  def test_threads_share_a_connection_with_functions
    database = create
    database.create_function("doubled", 1) do |proxy, n|
      Thread.pass
      proxy.result = n * 2
    end
    threads = Array.new(4) do |writer|
      Thread.new do
        20.times { |n| database.execute("INSERT INTO item (n) SELECT doubled(?)", [writer * 100 + n]) }
        database.execute("SELECT doubled(n) FROM item ORDER BY id").size
      end
    end
    soon { threads.each(&:join) }
    assert_equal [80, 0], database.get_first_row("SELECT count(*), sum(n % 2) FROM item")
  end

  # Without a scheduler's help, the first wait would stop the thread that all 64 share.
  def test_64_fibers_under_a_scheduler_write_at_once
    create.close
    done = []
    thread = Thread.new do
      Fiber.set_scheduler(PlainScheduler.new)
      64.times do |number|
        Fiber.schedule do
          database = open
          3.times do
            database.transaction(:immediate) do
              n = database.get_first_value("SELECT count(*) FROM item")
              sleep(0.0005)
              database.execute("INSERT INTO item (n) VALUES (?)", [n])
            end
          end
          done << number
        end
      end
    end
    soon { thread.join }
    assert_equal (0...64).to_a, done.sort
    rows = open.execute("SELECT n FROM item ORDER BY id").flatten
    assert_equal (0...192).to_a, rows
  end

  def test_a_fiber_waits_and_the_others_of_its_thread_go_on
    holder = create
    order = []
    thread = Thread.new do
      Fiber.set_scheduler(PlainScheduler.new)
      Fiber.schedule do
        holder.execute("BEGIN IMMEDIATE")
        Fiber.schedule do
          waiter = open
          order << :waits
          waiter.execute("INSERT INTO item (n) VALUES (1)")
          order << :wrote
        end
        sleep(0.05)
        order << :commits
        holder.execute("COMMIT")
      end
    end
    soon { thread.join }
    assert_equal %i[waits commits wrote], order
  end

  def test_fibers_share_a_connection
    database = create
    thread = Thread.new do
      Fiber.set_scheduler(PlainScheduler.new)
      8.times { |writer| Fiber.schedule { 10.times { |n| database.execute("INSERT INTO item (n) VALUES (?)", [writer * 10 + n]) } } }
    end
    soon { thread.join }
    assert_equal [80, 80], database.get_first_row("SELECT count(*), count(DISTINCT n) FROM item")
  end

  # Another thread executes the write, and calls the function there.
  def test_a_function_is_called_under_a_scheduler
    database = create
    database.create_function("doubled", 1) { |proxy, n| proxy.result = n * database.get_first_value("SELECT 2") }
    database.create_function("explode", 0) { raise ArgumentError, "boom" }
    caught = nil
    thread = Thread.new do
      Fiber.set_scheduler(PlainScheduler.new)
      Fiber.schedule do
        database.execute("INSERT INTO item (n) SELECT doubled(21)")
        database.execute("INSERT INTO item (n) SELECT explode()")
      rescue ArgumentError => error
        caught = error
      end
    end
    soon { thread.join }
    assert_equal "boom", caught.message
    assert_equal [[42]], database.execute("SELECT n FROM item")
  end

  def test_what_is_raised_in_a_fiber_ends_its_wait
    holder = create
    waiter = open
    waiter.busy_timeout = 60_000
    caught = nil
    held(holder) do
      thread = Thread.new do
        Fiber.set_scheduler(PlainScheduler.new)
        waiting = Fiber.schedule do
          waiter.execute("INSERT INTO item (n) VALUES (1)")
        rescue ArgumentError => error
          caught = error
        end
        Fiber.schedule do
          sleep(0.05)
          waiting.raise(ArgumentError, "enough")
        end
      end
      soon { thread.join }
    end
    assert_equal "enough", caught.message
    waiter.execute("INSERT INTO item (n) VALUES (2)")
    assert_equal [[2]], holder.execute("SELECT n FROM item")
  end

  # Ruby drops the fibers of a thread that is killed, and never comes back to them.
  def test_a_fiber_that_never_comes_back_leaves_its_connection_usable
    holder = create
    waiter = open
    waiter.busy_timeout = 60_000
    held(holder) do
      thread = Thread.new do
        Fiber.set_scheduler(PlainScheduler.new)
        Fiber.schedule { waiter.execute("INSERT INTO item (n) VALUES (1)") }
      end
      sleep(0.05)
      soon { thread.kill.join }
      GC.start
      # The write of the fiber is ended, since somebody else wants its connection.
      assert_equal 0, soon { waiter.get_first_value("SELECT count(*) FROM item") }
    end
    soon { waiter.execute("INSERT INTO item (n) VALUES (2)") }
    assert_equal [[2]], holder.execute("SELECT n FROM item")
  end

  def test_ractors_have_connections_of_their_own
    create.close
    warnings = $VERBOSE
    $VERBOSE = nil
    ractors = Array.new(2) do |writer|
      Ractor.new(path, writer) do |path, number|
        database = Manyhands::Database.new(path)
        10.times { |n| database.execute("INSERT INTO item (n) VALUES (?)", [number * 100 + n]) }
        database.close
        number
      end
    end
    assert_equal [0, 1], ractors.map { |ractor| ractor.respond_to?(:value) ? ractor.value : ractor.take }
    assert_equal 20, open.get_first_value("SELECT count(DISTINCT n) FROM item")
  ensure
    $VERBOSE = warnings
  end
end
