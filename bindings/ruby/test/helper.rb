# frozen_string_literal: true

# What all tests need: a folder that goes away, databases in it, and processes that end.

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "minitest/autorun"
require "tmpdir"
require "timeout"
require "io/wait"
require "fileutils"
require "manyhands"

class DatabaseTest < Minitest::Test
  attr_reader :folder

  def setup
    @folder = Dir.mktmpdir("manyhands-ruby")
    @opened = []
  end

  def teardown
    @opened.each { |database| database.close unless database.closed? }
    FileUtils.remove_entry(folder)
  end

  def path(name = "test.db")
    File.join(folder, name)
  end

  # A connection that the test need not close.
  def open(name = "test.db", **options)
    database = Manyhands::Database.new(name == ":memory:" ? name : path(name), options)
    @opened << database
    database
  end

  # A database with the table item (id, n).
  def create
    database = open
    database.execute("CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, n INTEGER)")
    database
  end

  # Executes the block in a child process; gives what it has returned.
  def in_child
    reader, writer = IO.pipe
    child = fork do
      reader.close
      answer =
        begin
          yield
        rescue Exception => error # rubocop:disable Lint/RescueException
          error
        end
      writer.write(Marshal.dump(answer.is_a?(Exception) ? "#{answer.class}: #{answer.message}" : answer))
      writer.close
      exit!(true)
    end
    writer.close
    answer = Timeout.timeout(60) { reader.read }
    Process.wait(child)
    Marshal.load(answer)
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
