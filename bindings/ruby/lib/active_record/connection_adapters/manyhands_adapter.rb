# frozen_string_literal: true

# The adapter `manyhands`: Rails' own SQLite adapter on `Manyhands::Database`, for Rails 6.1 to 8.
#
# What differs from the stock adapter is here (opening, settings, errors) and in `manyhands/adapter/transactions.rb`. Everything else is inherited: SQL,
# migrations, types, the schema. `adapter_name` stays "SQLite", since gems ask for it.
#
# Rails 7.1 opens connections when they are needed, and has `new_client`. Earlier versions give the adapter an open one.

require "fileutils"
require "manyhands"
require "manyhands/sqlite3" unless defined?(SQLite3::Database)
require "active_record/connection_adapters/sqlite3_adapter"
require "manyhands/adapter/transactions"

module ActiveRecord
  module ConnectionHandling # :nodoc:
    # Rails until 7.1 looks for a method with this name.
    def manyhands_connection(config)
      adapter = ConnectionAdapters::ManyhandsAdapter
      config = config.symbolize_keys
      return adapter.new(config) if adapter::OPENS_ITSELF

      config = adapter.with_place(config)
      adapter.new(adapter.new_client(config), logger, nil, config)
    end

    # Rails 7.1.
    def manyhands_adapter_class
      ConnectionAdapters::ManyhandsAdapter
    end
  end

  module ConnectionAdapters
    class ManyhandsAdapter < SQLite3Adapter
      OPENS_ITSELF = ActiveRecord.gem_version >= Gem::Version.new("7.1")

      # Rails 7.1 sets synchronous=NORMAL, since a sync for each commit is slow. Here many commits share one.
      PRAGMAS = { "synchronous" => "full" }.freeze

      # The error code of SQLite for a transaction that has read what is no longer so, and its class in the lowest byte.
      BUSY_SNAPSHOT = 517
      BUSY = 5

      prepend Manyhands::Adapter::Transactions

      class << self
        def new_client(config)
          Manyhands::Database.new(config[:database].to_s, config.merge(results_as_hash: true))
        rescue Errno::ENOENT
          raise ActiveRecord::NoDatabaseError
        end

        # The same shell on the same engine, so that what is typed there waits its turn, too; or SQLite's own.
        def dbconsole(config, options = {})
          arguments = []
          arguments << "-#{options[:mode]}" if options[:mode]
          arguments << "-header" if options[:header]
          arguments << File.expand_path(config.database, root)
          return exec("manyhands", "shell", "--", *arguments) if on_path?("manyhands")

          on_path?("sqlite3") or abort("Neither manyhands nor sqlite3 is on the PATH: install one of them")
          exec("sqlite3", *arguments)
        end

        # A path is relative to the application, and its folder is made. Rails 7.1 does this itself.
        def with_place(config)
          database = config[:database].to_s
          raise ArgumentError, "No database file specified. Missing argument: database" if database.empty?
          return config if database == ":memory:" || database.start_with?("file:")

          database = File.expand_path(database, root)
          FileUtils.mkdir_p(File.dirname(database))
          config.merge(database: database)
        end

        private

        # The application's folder, or the current one.
        def root
          defined?(::Rails.root) ? ::Rails.root : nil
        end

        def on_path?(program)
          ENV["PATH"].to_s.split(File::PATH_SEPARATOR).any? { |folder| File.executable?(File.join(folder, program)) }
        end
      end

      private

      def configure_connection
        @config = @config.merge(pragmas: PRAGMAS.merge((@config[:pragmas] || {}).stringify_keys))
        super
        database = OPENS_ITSELF ? @raw_connection : @connection
        database.extended_result_codes = true
        set_pragmas(database) unless OPENS_ITSELF
      end

      # Rails 7.1 has the setting `pragmas`.
      def set_pragmas(database)
        @config[:pragmas].each { |name, value| database.execute("PRAGMA #{name} = #{value}") }
      end

      # Rails until 7.0 connects again with this.
      def connect
        return super if OPENS_ITSELF

        @connection = self.class.new_client(@config)
        configure_connection
      end

      def translate_exception(exception, message:, sql:, binds:)
        code = exception.respond_to?(:code) ? exception.code.to_i : 0
        case
        when code == BUSY_SNAPSHOT then error(SerializationFailure, message, sql, binds)
        when code & 0xff == BUSY then error(StatementTimeout, message, sql, binds)
        else super
        end
      end

      def error(kind, message, sql, binds)
        OPENS_ITSELF ? kind.new(message, sql: sql, binds: binds, connection_pool: @pool) : kind.new(message, sql: sql, binds: binds)
      end

      # The types that Rails registers for the name `sqlite3`.
      ActiveRecord::Type.register(:integer, SQLite3Integer, adapter: :manyhands)
    end

    ActiveSupport.run_load_hooks(:active_record_manyhandsadapter, ManyhandsAdapter)
  end
end
