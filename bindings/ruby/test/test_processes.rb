# frozen_string_literal: true

# Several processes: they write at once, one of them is killed, or forks.

require_relative "helper"

class TestProcesses < DatabaseTest
  def test_processes_with_threads_write_without_an_error
    create.close
    children = Array.new(4) do |process|
      fork do
        threads = Array.new(3) do |thread|
          Thread.new do
            database = Manyhands::Database.new(path)
            10.times do |n|
              database.transaction do
                seen = database.get_first_value("SELECT count(*) FROM item")
                database.execute("INSERT INTO item (n) VALUES (?)", [(process * 3 + thread) * 100 + n + seen * 0])
              end
            end
            database.close
          end
        end
        threads.each(&:join)
        exit!(true)
      end
    end
    statuses = Timeout.timeout(60) { children.map { |child| Process.wait2(child)[1] } }
    assert statuses.all?(&:success?), statuses.inspect
    assert_equal [120, 120], open.get_first_row("SELECT count(*), count(DISTINCT n) FROM item")
    assert_equal "ok", open.get_first_value("PRAGMA integrity_check")
  end

  # What was acknowledged is there after kill -9 of all writers.
  def test_acknowledged_rows_survive_kill
    create.close
    children = Array.new(3) { |writer| start_writer(writer) }
    sleep(0.3)
    children.each { |child, _| Process.kill("KILL", child) }
    acknowledged = children.flat_map do |child, reader|
      Process.wait(child)
      reader.read.lines.select { |line| line.end_with?("\n") }.map(&:to_i)
    end
    database = open
    rows = database.execute("SELECT n FROM item").flatten
    assert_operator acknowledged.size, :>, 0
    assert_empty acknowledged - rows
    assert_equal "ok", database.get_first_value("PRAGMA integrity_check")
    database.execute("INSERT INTO item (n) VALUES (-1)")
  end

  def start_writer(writer)
    reader, acknowledge = IO.pipe
    child = fork do
      reader.close
      acknowledge.sync = true
      database = Manyhands::Database.new(path)
      (0..).each do |n|
        database.execute("INSERT INTO item (n) VALUES (?)", [writer * 1_000_000 + n])
        acknowledge.write("#{writer * 1_000_000 + n}\n")
      end
    end
    acknowledge.close
    [child, reader]
  end

  def test_a_child_lets_go_of_what_it_has_inherited
    database = create
    statement = database.prepare("SELECT 1")
    messages = capture_subprocess_io do
      answers = in_child do
        fresh = Manyhands::Database.new(path)
        fresh.execute("INSERT INTO item (n) VALUES (1)")
        told = begin
          statement.step
        rescue Manyhands::Exception => error
          error.message
        end
        [database.closed?, told, fresh.get_first_value("SELECT count(*) FROM item")]
      end
      assert_equal [true, "cannot use a statement associated with a discarded database", 1], answers
    end
    assert_match(/inherited from a forked process/, messages[1])
    # The parent's goes on.
    database.execute("INSERT INTO item (n) VALUES (2)")
    assert_equal [[1]], statement.to_a
    assert_equal 2, database.get_first_value("SELECT count(*) FROM item")
    statement.close
  end

  # Ctrl-C ends the wait of a process that has one thread: Ruby tells the extension in the signal's handler.
  def test_an_interrupt_ends_the_wait_of_a_process_with_one_thread
    holder = create
    holder.execute("BEGIN IMMEDIATE")
    program = <<~RUBY
      require "manyhands"
      database = Manyhands::Database.new(ARGV[0])
      database.busy_timeout = 60_000
      trap("USR1") { $stdout.syswrite("trapped\\n") }
      begin
        $stdout.syswrite("waits\\n")
        database.execute("INSERT INTO item (n) VALUES (1)")
      rescue Interrupt
        $stdout.syswrite("interrupted\\n")
      end
      database.busy_timeout = 0
      begin
        database.execute("INSERT INTO item (n) VALUES (1)")
      rescue Manyhands::BusyException
        $stdout.syswrite("busy\\n")
      end
    RUBY
    options = ["-I#{File.expand_path("../lib", __dir__)}", "-e", program, path]
    IO.popen([RbConfig.ruby, *options]) do |child|
      Timeout.timeout(60) do
        assert_equal "waits\n", child.gets
        Process.kill("USR1", child.pid)
        assert_equal "trapped\n", child.gets
        Process.kill("INT", child.pid)
        assert_equal "interrupted\nbusy\n", child.read
      end
    end
  ensure
    holder.execute("ROLLBACK")
  end

  def test_a_child_goes_on_while_a_thread_of_its_parent_waits
    holder = create
    waiter = open
    holder.execute("BEGIN IMMEDIATE")
    blocked = Thread.new { waiter.execute("INSERT INTO item (n) VALUES (1)") }
    Thread.pass until blocked.stop?
    capture_subprocess_io do
      assert_equal 0, in_child { Manyhands::Database.new(path).get_first_value("SELECT count(*) FROM item") }
    end
    holder.execute("COMMIT")
    assert blocked.join(30)
  end
end
