# frozen_string_literal: true

# A test with a database of its own, on the adapter, without an application.

require "minitest/autorun"
require "logger"
require "tmpdir"
require "active_record"
require "manyhands"
require "manyhands/active_record"

# Programs that a test starts find the gem, too.
ENV["RUBYLIB"] = File.expand_path("../../lib", __dir__)

# Roles as they are from 6.1 on.
ActiveRecord::Base.legacy_connection_handling = false if ActiveRecord::VERSION::STRING.start_with?("6.1")

class DatabaseCase < Minitest::Test
  def setup
    @folder = Dir.mktmpdir
    connect
  end

  def teardown
    ActiveRecord::Base.connection_handler.clear_all_connections!
    FileUtils.rm_rf(@folder)
  end

  def path(name = "app.sqlite3")
    File.join(@folder, name)
  end

  def connect(adapter: "manyhands", **settings)
    ActiveRecord::Base.establish_connection(adapter: adapter, database: path, pool: 10, **settings)
    ActiveRecord::Migration.verbose = false
  end

  def connection
    ActiveRecord::Base.connection
  end

  def create_accounts
    connection.create_table(:accounts) { |t| t.integer :cents, null: false, default: 0; t.string :owner, index: { unique: true } }
    Account.reset_column_information
    Account.create!(owner: "a", cents: 100)
    Account.create!(owner: "b", cents: 0)
  end

  # What the block does in another thread, with another connection.
  def elsewhere
    Thread.new { ActiveRecord::Base.connection_pool.with_connection { yield } }.value
  end

  # The statements that are sent meanwhile.
  def statements(&block)
    sent = []
    ActiveSupport::Notifications.subscribed(->(*, payload) { sent << payload[:sql] }, "sql.active_record", &block)
    sent
  end
end

class Account < ActiveRecord::Base; end
