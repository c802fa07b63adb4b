# frozen_string_literal: true

require "manyhands/pragmas"
require "manyhands/statement"
require "manyhands/value"
require "manyhands/fork_safety"
require "manyhands/functions"

# Connections: what is Ruby's own about them. What calls SQLite is in src/database.rs.

module Manyhands
  class Database
    include Pragmas

    class << self
      # Opens a database; with a block, until the block ends.
      def open(*arguments)
        database = new(*arguments)
        return database unless block_given?

        begin
          yield database
        ensure
          database.close
        end
      end

      # A text with its apostrophes doubled, for use between two of them.
      def quote(text)
        text.gsub("'", "''")
      end
    end

    # The collations that were added, by name.
    attr_reader :collations

    # Whether rows are hashes of column names.
    attr_accessor :results_as_hash

    # Opens a database file, which is created if it is not there. Options:
    # * readonly:, readwrite: (an existing one), flags: (Constants::Open)
    # * results_as_hash:, default_transaction_mode: (:deferred, :immediate, :exclusive)
    # * strict: double quotes are for names only
    # * extensions: paths of SQLite extensions, or objects with the method to_path
    # * utf16: the name is in UTF-16
    def initialize(file, options = {}, vfs = nil)
      file = file.to_path if file.respond_to?(:to_path)
      mode = open_mode(options)
      if options[:utf16] || [Encoding::UTF_16LE, Encoding::UTF_16BE].include?(file.encoding)
        open16(utf16_name(file))
      else
        open_v2(file.encode(Encoding::UTF_8), mode, vfs)
        disable_quirk_mode if options[:strict]
      end
      @collations = {}
      @results_as_hash = options[:results_as_hash]
      @readonly = mode & Constants::Open::READONLY != 0
      @default_transaction_mode = options[:default_transaction_mode] || :deferred
      initialize_extensions(options[:extensions])
      ForkSafety.track(self)
      return unless block_given?

      begin
        yield self
      ensure
        close
      end
    end

    def readonly?
      @readonly
    end

    # The encoding of the database's texts.
    def encoding
      Encoding.find(super)
    end

    # The file of a database: "main", or the name of an attached one. Empty for one in memory.
    def filename(name = "main")
      db_filename(name)
    end

    # Compiles the first statement of a text; with a block, closes it after the block.
    def prepare(sql)
      statement = Statement.new(self, sql)
      return statement unless block_given?

      begin
        yield statement
      ensure
        statement.close unless statement.closed?
      end
    end

    # Executes a statement with values for its parameters: an array, or a hash of names. Gives the rows, or calls the block with each.
    def execute(sql, values = [], *more, &block)
      values = [values, *more] unless more.empty?
      prepare(sql) do |statement|
        statement.bind_params(values || [])
        rows = build_result_set(statement)
        block ? rows.each(&block) : rows.to_a.freeze
      end
    end

    # The same, with the names of the columns as the first row.
    def execute2(sql, *values)
      prepare(sql) do |statement|
        rows = statement.execute(*values)
        next [statement.columns, *rows] unless block_given?

        yield statement.columns
        rows.each { |row| yield row }
      end
    end

    # Executes all statements of a text; values are bound to those that have as many parameters. Gives the first row of the last one.
    def execute_batch(sql, values = [], *more)
      values = more.empty? ? values : [values, *more]
      values = [values].compact unless values.is_a?(Array) || values.is_a?(Hash)
      sql = sql.strip
      result = nil
      until sql.empty?
        prepare(sql) do |statement|
          unless statement.closed?
            statement.bind_params(values) if values.length == statement.bind_parameter_count
            result = statement.step
          end
          sql = statement.remainder.strip
        end
      end
      result
    end

    # Executes all statements of a text. Gives all their rows, whose values are texts, or what the block makes of each row.
    def execute_batch2(sql, &block)
      rows = exec_texts(sql).map { |row| results_as_hash ? row.to_h : row.map(&:last) }
      block ? rows.map(&block) : rows
    end

    # The rows of a statement, one by one; with a block, closes them after the block.
    def query(sql, values = [], *more)
      values = [values, *more] unless more.empty?
      result = prepare(sql).execute(values || [])
      return result unless block_given?

      begin
        yield result
      ensure
        result.close
      end
    end

    def get_first_row(sql, *values)
      execute(sql, *values).first
    end

    # The first value of the first row; nil without one.
    def get_first_value(sql, *values)
      query(sql, values) do |rows|
        row = rows.next
        row && (results_as_hash ? row[rows.columns[0]] : row[0])
      end
    end

    # Begins a transaction. With a block, commits it at the end of the block, or rolls it back if the block raises or its thread is
    # killed.
    def transaction(mode = nil)
      execute("begin #{mode || @default_transaction_mode} transaction")
      return true unless block_given?

      is_complete = false
      has_failed = false
      begin
        result = yield self
        is_complete = true
        result
      rescue ::Exception # rubocop:disable Lint/RescueException
        has_failed = true
        raise
      ensure
        # SQLite may have rolled back already: a write that is interrupted takes its transaction with it.
        if has_failed || Thread.current.status == "aborting"
          rollback if !closed? && transaction_active?
        elsif is_complete || transaction_active?
          commit
        end
      end
    end

    def commit
      execute("commit transaction")
      true
    end

    def rollback
      execute("rollback transaction")
      true
    end

    # How many milliseconds a call waits for other writers; 5,000 if nothing is said. With a number, sets it.
    def busy_timeout(milliseconds = nil)
      milliseconds ? self.busy_timeout = milliseconds : super()
    end

    # The same: every wait releases the GVL.
    def busy_handler_timeout=(milliseconds)
      self.busy_timeout = milliseconds
    end

    # Has the block, or an object with the method call, asked about every millisecond of a wait: false to give up. nil asks nobody and
    # does not wait.
    def busy_handler(handler = nil, &block)
      set_busy_handler(handler || block)
    end

    # Has the block, or an object with the method call, told the text of each statement that begins. nil tells nobody.
    def trace(handler = nil, &block)
      set_trace(handler || block)
    end

    # Has the block asked about everything that a statement would do: true to allow it, false to deny it, nil to ignore it.
    def authorizer(&block)
      self.authorizer = block
    end

    # Whether extensions may be loaded.
    def enable_load_extension(on)
      on = { true => 1, false => 0 }.fetch(on, on)
      switch_load_extension(on)
    end

    # Loads an extension: a path, or an object with the method to_path.
    def load_extension(extension)
      extension = extension.to_path if extension.respond_to?(:to_path)
      unless extension.is_a?(String)
        raise TypeError, "extension_specifier #{extension.inspect} is not a String or a valid extension specifier object"
      end

      load_extension_internal(extension)
    end

    def initialize_extensions(extensions) # :nodoc:
      return if extensions.nil?
      raise TypeError, "extensions must be an Array" unless extensions.is_a?(Array)
      return if extensions.empty?

      begin
        enable_load_extension(true)
        extensions.each { |extension| load_extension(extension) }
      ensure
        enable_load_extension(false)
      end
    end

    def build_result_set(statement) # :nodoc:
      (results_as_hash ? HashResultSet : ResultSet).new(self, statement)
    end

    private

    def open_mode(options)
      raise "conflicting options: readonly and readwrite" if options[:readonly] && options[:readwrite]

      if options[:flags]
        raise "conflicting options: flags with readonly and/or readwrite" if options[:readonly] || options[:readwrite]

        return options[:flags]
      end
      return Constants::Open::READONLY if options[:readonly]
      return Constants::Open::READWRITE if options[:readwrite]

      Constants::Open::READWRITE | Constants::Open::CREATE
    end

    # A name in the machine's UTF-16, with a zero at its end.
    def utf16_name(file)
      native = [1].pack("S") == "\x01\x00".b ? Encoding::UTF_16LE : Encoding::UTF_16BE
      wide = [Encoding::UTF_16LE, Encoding::UTF_16BE].include?(file.encoding)
      name = wide ? file.encode(native) : file.dup.force_encoding(native)
      raise ArgumentError, "string contains null char" if name.codepoints.include?(0)

      name.b << "\x00\x00".b
    end
  end
end
