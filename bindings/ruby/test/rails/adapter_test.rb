# frozen_string_literal: true

# What an application expects of its adapter: that of Rails, on Manyhands.

require_relative "database_case"

class RolesRecord < ActiveRecord::Base
  self.abstract_class = true
end

class RoleAccount < RolesRecord
  self.table_name = "accounts"
end

class OtherRecord < ActiveRecord::Base
  self.abstract_class = true
end

class AdapterTest < DatabaseCase
  def test_it_is_rails_own_adapter_on_manyhands
    assert_equal "manyhands", ActiveRecord::Base.connection_db_config.adapter
    assert_kind_of ActiveRecord::ConnectionAdapters::SQLite3Adapter, connection
    assert_equal "SQLite", connection.adapter_name, "gems ask for it"
    assert_kind_of Manyhands::Database, connection.raw_connection
    create_accounts
    assert File.exist?("#{path}-hands"), "no queue: SQLite alone did it"
  end

  def test_a_commit_survives_a_power_cut_unless_told_otherwise
    create_accounts
    assert_equal 2, connection.select_value("PRAGMA synchronous")
    assert_equal "wal", connection.select_value("PRAGMA journal_mode")
    assert_equal 1, connection.select_value("PRAGMA foreign_keys")
    connect(pragmas: { synchronous: "normal" })
    assert_equal 1, connection.select_value("PRAGMA synchronous")
  end

  def test_migrations_up_and_down
    migration = Class.new(ActiveRecord::Migration["6.1"]) do
      def change
        create_table(:posts) { |t| t.string :title, null: false; t.references :account; t.timestamps }
        add_index :posts, :title, unique: true
        add_column :posts, :score, :integer, default: 0
        change_column_null :posts, :score, false
        rename_column :posts, :title, :headline
      end
    end
    migration.migrate(:up)
    assert_equal %w[id headline account_id created_at updated_at score], connection.columns(:posts).map(&:name)
    assert connection.index_exists?(:posts, :headline, unique: true)
    migration.migrate(:down)
    refute connection.table_exists?(:posts)
  end

  def test_a_dumped_schema_makes_the_same_tables
    create_accounts
    dump = -> { StringIO.new.tap { |text| ActiveRecord::SchemaDumper.dump(*(ActiveRecord.gem_version >= Gem::Version.new("7.2") ? [ActiveRecord::Base.connection_pool] : [connection]), text) }.string }
    dumped = dump.call
    assert_includes dumped, 'create_table "accounts"'
    ActiveRecord::Base.connection_handler.clear_all_connections!
    File.delete(path)
    connect
    eval(dumped) # rubocop:disable Security/Eval
    assert_equal dumped, dump.call
  end

  def test_a_dumped_structure_is_loaded
    create_accounts
    require "manyhands/adapter/database_tasks"
    tasks = -> { Manyhands::Adapter::DatabaseTasks.new(ActiveRecord::Base.connection_db_config, @folder) }
    tasks.call.structure_dump(path("structure.sql"), nil)
    tasks.call.drop
    assert_empty Dir.glob("#{path}*"), "files of a database that is dropped"
    connect
    tasks.call.structure_load(path("structure.sql"), nil)
    assert_equal %w[id cents owner], connection.columns(:accounts).map(&:name)
  end

  def test_an_integer_has_eight_bytes
    connection.create_table(:numbers) { |t| t.integer :n }
    number = Class.new(ActiveRecord::Base) { self.table_name = "numbers" }
    assert_equal 2**62, number.create!(n: 2**62).reload.n
  end

  def test_values_come_back_as_they_were
    connection.create_table(:values) do |t|
      t.text :text; t.binary :bytes; t.float :float; t.decimal :decimal, precision: 10, scale: 2; t.datetime :at; t.boolean :flag; t.json :json
    end
    value = Class.new(ActiveRecord::Base) { self.table_name = "values" }
    given = { text: "žluťoučký", bytes: "\0\xff".b, float: 0.1, decimal: BigDecimal("12.34"), at: Time.utc(2026, 1, 2, 3, 4, 5), flag: true, json: { "a" => [1] } }
    read = value.find(value.create!(**given).id)
    given.each { |name, expected| assert_equal expected, read[name], name }
  end

  def test_insert_all_and_upsert_all
    create_accounts
    Account.insert_all!([{ owner: "c", cents: 1 }, { owner: "d", cents: 2 }])
    Account.insert_all([{ owner: "c", cents: 9 }])
    Account.upsert_all([{ owner: "d", cents: 9 }], unique_by: :owner)
    assert_equal [["a", 100], ["b", 0], ["c", 1], ["d", 9]], Account.order(:owner).pluck(:owner, :cents)
  end

  def test_errors_have_their_classes
    create_accounts
    connection.create_table(:entries) { |t| t.references :account, null: false, foreign_key: true }
    entry = Class.new(ActiveRecord::Base) { self.table_name = "entries" }
    assert_raises(ActiveRecord::RecordNotUnique) { Account.create!(owner: "a") }
    assert_raises(ActiveRecord::NotNullViolation) { Account.create!(owner: "e", cents: nil) }
    assert_raises(ActiveRecord::InvalidForeignKey) { entry.create!(account_id: 99) }
    assert_raises(ActiveRecord::StatementInvalid) { connection.execute("no SQL") }
    assert_raises(ActiveRecord::RangeError, ActiveModel::RangeError) { Account.create!(owner: "f", cents: 2**64) }
  end

  def test_a_reading_role_and_another_database
    create_accounts
    ActiveRecord::Base.configurations = {
      "default_env" => {
        "primary" => { "adapter" => "manyhands", "database" => path },
        "replica" => { "adapter" => "manyhands", "database" => path, "replica" => true },
        "other" => { "adapter" => "manyhands", "database" => path("other.sqlite3") }
      }
    }
    RolesRecord.connects_to(database: { writing: :primary, reading: :replica })
    OtherRecord.connects_to(database: { writing: :other })
    RoleAccount.create!(owner: "c", cents: 5)
    RolesRecord.connected_to(role: :reading) do
      assert_equal 3, RoleAccount.count, "a reader sees each commit at once"
      assert_raises(ActiveRecord::ReadOnlyError) { RoleAccount.create!(owner: "d") }
    end
    OtherRecord.connection.create_table(:things)
    assert_equal ["things"], OtherRecord.connection.tables
    assert_includes RoleAccount.connection.tables, "accounts"
  ensure
    [RolesRecord, OtherRecord].each(&:remove_connection)
    ActiveRecord::Base.configurations = {}
  end

  def test_an_url_with_an_absolute_path
    resolver = ActiveRecord::DatabaseConfigurations::ConnectionUrlResolver
    assert_equal({ adapter: "manyhands", database: "/var/app.sqlite3", timeout: "1000" },
                 resolver.new("manyhands:/var/app.sqlite3?timeout=1000").to_hash)
    assert_equal({ adapter: "manyhands", database: "db/app.sqlite3" }, resolver.new("manyhands:db/app.sqlite3").to_hash)
  end

  def test_the_folder_of_a_database_is_made
    ActiveRecord::Base.establish_connection(adapter: "manyhands", database: path("deep/er/app.sqlite3"))
    assert_equal 1, connection.select_value("SELECT 1")
    assert File.exist?(path("deep/er/app.sqlite3"))
  end

  def test_a_connection_without_a_database_is_told
    ActiveRecord::Base.establish_connection(adapter: "manyhands", database: "")
    error = assert_raises(ArgumentError) { connection.select_value("SELECT 1") }
    assert_match(/No database file specified/, error.message)
  end

  def test_a_connection_is_made_again
    create_accounts
    connection.reconnect!
    assert_equal 2, Account.count
    connection.disconnect!
    connection.reconnect!
    assert_equal 2, Account.count
    assert_kind_of Manyhands::Database, connection.raw_connection
    assert_equal 2, connection.select_value("PRAGMA synchronous")
  end

  def test_a_database_in_memory
    ActiveRecord::Base.establish_connection(adapter: "manyhands", database: ":memory:")
    connection.create_table(:things)
    assert_equal ["things"], connection.tables
  end
end
