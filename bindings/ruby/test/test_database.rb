# frozen_string_literal: true

# The surface of the gem sqlite3: values, parameters, rows, errors, functions, hooks.

require_relative "helper"

class TestDatabase < DatabaseTest
  def test_each_kind_of_value_comes_back_as_it_was_given
    database = open
    values = [nil, 1, -(2**62), 2.5, "text", "\x00\xFF".b, "", "".b]
    row = database.get_first_row("SELECT #{(["?"] * values.size).join(",")}", values)
    assert_equal values, row
    assert_equal Encoding::UTF_8, row[4].encoding
    assert_equal Encoding::ASCII_8BIT, row[5].encoding
    assert_predicate row, :frozen?
  end

  def test_parameters_are_bound_by_number_and_by_name
    database = create
    database.execute("INSERT INTO item VALUES (:id, :n)", { id: 1, "n" => 10 })
    database.execute("INSERT INTO item VALUES (?, ?)", [2, 20])
    statement = database.prepare("SELECT n FROM item WHERE id = :id")
    statement.bind_param(":id", 2)
    assert_equal [[20]], statement.to_a
    assert_equal ["id"], statement.named_params
    statement.close
    assert_raises(Manyhands::Exception) { database.execute("SELECT :a", { b: 1 }) }
  end

  def test_a_large_integer_is_a_real
    assert_equal 2.0**70, open.get_first_value("SELECT ?", [2**70])
  end

  def test_rows_are_hashes_if_the_program_wants
    database = open(results_as_hash: true)
    assert_equal [{ "a" => 1, "b" => 2 }], database.execute("SELECT 1 AS a, 2 AS b")
    assert_equal 1, database.get_first_value("SELECT 1 AS a")
  end

  def test_a_script_is_executed_to_its_end
    database = open
    database.execute_batch("CREATE TABLE a (b); INSERT INTO a VALUES (1); INSERT INTO a VALUES (2);")
    assert_equal [["1"], ["2"]], database.execute_batch2("SELECT b FROM a")
    assert_equal [[1], [2]], database.query("SELECT b FROM a").to_a
  end

  def test_a_transaction_that_raises_is_rolled_back
    database = create
    assert_raises(ArgumentError) do
      database.transaction do
        database.execute("INSERT INTO item VALUES (1, 1)")
        raise ArgumentError
      end
    end
    assert_equal 0, database.get_first_value("SELECT count(*) FROM item")
    database.transaction(:immediate) { database.execute("INSERT INTO item VALUES (1, 1)") }
    assert_equal 1, database.get_first_value("SELECT count(*) FROM item")
    refute_predicate database, :transaction_active?
  end

  def test_an_error_has_its_class_its_code_and_its_place
    database = create
    error = assert_raises(Manyhands::SQLException) { database.execute("SELECT\n1 FRM item") }
    assert_equal 1, error.code
    assert_includes error.message, "near \"item\": syntax error"
    database.execute("INSERT INTO item VALUES (1, 1)")
    error = assert_raises(Manyhands::ConstraintException) { database.execute("INSERT INTO item VALUES (1, 1)") }
    assert_equal 19, error.code
    assert_kind_of Manyhands::Failure, error
  end

  def test_what_a_function_raises_is_raised_by_the_call
    database = open
    database.create_function("explode", 0) { raise ArgumentError, "boom" }
    error = assert_raises(ArgumentError) { database.execute("SELECT explode()") }
    assert_equal "boom", error.message
    assert_equal 1, database.get_first_value("SELECT 1")
  end

  def test_what_a_function_raises_in_a_write_undoes_it
    database = create
    database.create_function("explode", 1) { |_, n| raise ArgumentError if n == 2 }
    3.times { |n| database.execute("INSERT INTO item VALUES (?, ?)", [n, n]) }
    assert_raises(ArgumentError) { database.execute("UPDATE item SET n = explode(n)") }
    assert_equal [[0], [1], [2]], database.execute("SELECT n FROM item")
  end

  def test_a_function_uses_its_own_connection
    database = create
    database.create_function("written", 1) do |proxy, n|
      database.execute("INSERT INTO item (n) VALUES (?)", [n])
      proxy.result = database.get_first_value("SELECT count(*) FROM item")
    end
    assert_equal [[1], [2]], database.execute("SELECT written(value) FROM json_each('[7, 8]')")
    assert_equal [[7], [8]], database.execute("SELECT n FROM item")
  end

  # The first step of such a query is long, and would begin again without the GVL if the program were not called in it.
  def test_a_function_is_called_once_for_each_row_however_long_that_takes
    database = create
    calls = 0
    database.create_function("slow", 1) do |proxy, n|
      calls += 1
      sleep(0.005) if n == 1
      proxy.result = n
    end
    rows = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a LIMIT 5000)"
    assert_equal 5000 * 5001 / 2, database.get_first_value("#{rows} SELECT sum(slow(n)) FROM a")
    assert_equal 5000, calls
  end

  # A query that takes longer than a step may keep the GVL begins again, and nobody sees it.
  def test_a_long_query_has_its_result_once
    database = open
    long = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a LIMIT 200000) SELECT sum(n) FROM a"
    3.times { assert_equal 200_000 * 200_001 / 2, database.get_first_value(long) }
    assert_equal 200_000, database.execute(long.sub("sum(n)", "n")).size
  end

  def test_aggregates_in_each_of_their_forms
    database = create
    database.execute("INSERT INTO item VALUES (1, 1), (2, 2), (3, 4)")
    database.create_aggregate("add1", 1) do
      step { |proxy, n| proxy[:sum] = (proxy[:sum] || 0) + n }
      finalize { |proxy| proxy.result = proxy[:sum] }
    end
    handler = Class.new do
      def self.name = "add2"
      def self.arity = 1
      def step(proxy, n) = proxy[:sum] = (proxy[:sum] || 0) + n
      def finalize(proxy) = proxy.result = proxy[:sum]
    end
    database.create_aggregate_handler(handler)
    adder = Class.new do
      def step(n) = @sum = (@sum || 0) + n
      def finalize = @sum
    end
    database.define_aggregator("add3", adder.new)
    assert_equal [7, 7, 7], database.get_first_row("SELECT add1(n), add2(n), add3(n) FROM item")
    assert_equal [[1, 1], [0, 6]], database.execute("SELECT n % 2, add1(n) FROM item GROUP BY n % 2 ORDER BY 1 DESC")
  end

  def test_a_collation_orders
    database = create
    backwards = Object.new
    def backwards.compare(left, right) = right <=> left
    database.collation("backwards", backwards)
    rows = database.execute("SELECT * FROM (VALUES ('a'), ('b')) ORDER BY 1 COLLATE backwards")
    assert_equal [["b"], ["a"]], rows
  end

  def test_an_authorizer_denies
    database = create
    database.authorizer { |action, table| !(action == 20 && table == "item") }
    assert_raises(Manyhands::AuthorizationException) { database.execute("SELECT * FROM item") }
    database.authorizer = nil
    assert_empty database.execute("SELECT * FROM item")
  end

  def test_a_trace_hears_of_each_statement
    database = open
    heard = []
    database.trace { |sql| heard << sql }
    database.execute("SELECT 1")
    database.trace(nil)
    database.execute("SELECT 2")
    assert_equal ["SELECT 1"], heard
  end

  def test_a_backup_copies_all_pages
    source = create
    source.execute("INSERT INTO item VALUES (1, 1)")
    target = open(":memory:")
    backup = Manyhands::Backup.new(target, "main", source, "main")
    assert_equal Manyhands::Constants::ErrorCode::DONE, backup.step(-1)
    assert_equal 0, backup.remaining
    backup.finish
    assert_equal [[1, 1]], target.execute("SELECT * FROM item")
  end

  def test_a_closed_database_says_so
    database = open
    database.close
    assert_predicate database, :closed?
    assert_raises(Manyhands::Exception) { database.changes }
    assert_raises(ArgumentError) { database.execute("SELECT 1") }
  end

  def test_statements_outlive_the_close_of_their_database
    database = create
    statement = database.prepare("SELECT 1")
    database.close
    assert_equal [[1]], statement.to_a
    statement.close
    assert_predicate statement, :closed?
  end

  def test_forgotten_statements_do_not_hold_the_database
    database = create
    50.times { database.prepare("SELECT * FROM item") }
    GC.start
    database.execute("INSERT INTO item VALUES (1, 1)")
    database.close
    assert_equal [[1, 1]], open.execute("SELECT * FROM item")
  end

  def test_a_pragma_has_its_methods
    database = open
    database.user_version = 7
    assert_equal 7, database.user_version
    database.foreign_keys = true
    assert database.foreign_keys
    assert_equal "wal", database.journal_mode
    assert_equal 5000, database.get_first_value("PRAGMA busy_timeout")
    database.busy_timeout = 20
    assert_equal 20, database.get_first_value("PRAGMA busy_timeout")
  end

  def test_the_shell_reads_the_file
    create.execute("INSERT INTO item VALUES (1, 42)")
    assert_equal "42\n", IO.popen(["sqlite3", path, "SELECT n FROM item"], &:read)
  end

  def test_a_statement_that_lasts_too_long_is_ended
    database = open
    database.statement_timeout = 50
    endless = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT count(*) FROM a"
    assert_raises(Manyhands::InterruptException) { database.execute(endless) }
  end
end
