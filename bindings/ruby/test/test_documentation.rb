# frozen_string_literal: true

# The programs of README.md and of docs/languages.md run as they stand.

require_relative "helper"

class TestDocumentation < DatabaseTest
  LIB = File.expand_path("../lib", __dir__)

  # The program of the first block that begins so.
  def block(page, fence)
    text = File.read(File.expand_path(page, __dir__))
    text[/^```#{fence}\n(.*?)^```$/m, 1] or flunk "#{page} has no block ```#{fence}"
  end

  def run_program(program, *options)
    output = IO.popen([RbConfig.ruby, "-w", "-I#{LIB}", *options, "-e", program, chdir: folder, err: %i[child out]], &:read)
    assert_predicate $?, :success?, output
    output
  end

  def test_the_quick_start
    assert_equal "[[7]]\n", run_program(block("../README.md", "ruby"))
  end

  def test_the_recipe
    open("app.db").execute("CREATE TABLE note (text TEXT)")
    program = block("../../../docs/languages.md", "ruby gem.rb")
    assert_equal "notes: 1\n", run_program(program)
    assert_equal "notes: 2\n", run_program(program.sub("manyhands/sqlite3", "sqlite3"), "-rmanyhands/sqlite3")
  end

  def test_the_gem_that_is_stood_in_for_may_be_asked_for
    program = 'gem "sqlite3", "~> 1.4"; require "sqlite3/database"; p SQLite3::BusyException.equal?(Manyhands::BusyException)'
    assert_equal "true\n", run_program(program, "-rmanyhands/sqlite3")
  end

  def test_exceptions_are_those_of_the_gem_that_was_loaded_before
    program = <<~RUBY
      database = Manyhands::Database.new(":memory:")
      [SQLite3::SQLException, Manyhands::SQLException, SQLite3::Exception, Manyhands::Exception].each do |expected|
        database.execute("nonsense")
      rescue expected => error
        puts error.code
      end
      p SQLite3::SQLException.new.is_a?(Manyhands::Exception), Manyhands::BusyException === SQLite3::BusyException.new
      p SQLite3::Database.equal?(Manyhands::Database)
    RUBY
    assert_equal "1\n1\n1\n1\nfalse\nfalse\nfalse\n", run_program(program, "-rsqlite3", "-rmanyhands")
  end

  def test_to_stand_in_for_a_gem_that_is_loaded_is_an_error_that_says_what_to_do
    program = 'begin; require "manyhands/sqlite3"; rescue LoadError => error; puts error.message; end'
    assert_match(/require "manyhands\/sqlite3" before it/, run_program(program, "-rsqlite3"))
  end

  # It has its own SQLite, whatever else is loaded in the process.
  def test_another_sqlite_in_the_process_is_not_disturbed
    needed = IO.popen(["nm", "-D", "--defined-only", *Dir["#{LIB}/manyhands/#{RUBY_VERSION[/\A\d+\.\d+/]}/*.so"]], &:read)
    assert_includes needed, "Init_manyhands_native"
    refute_match(/ sqlite3_/, needed)
  end
end
