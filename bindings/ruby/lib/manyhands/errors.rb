# frozen_string_literal: true

# The exceptions. Each result code of SQLite's has a class, of the same name as in the gem sqlite3. If that gem is loaded before, each is a
# subclass of its class there, and `rescue SQLite3::BusyException` catches both.

module Manyhands
  # What all exceptions have.
  module Failure
    # SQLite's result code; nil for what SQLite was not asked.
    attr_reader :code

    # The statement that did not compile.
    attr_reader :sql

    # Where in it the error is; -1 if SQLite does not know.
    attr_reader :sql_offset

    def message
      sql ? "#{super}:\n#{marked_sql}" : super
    end

    private

    # The statement, with a mark below the place of the error.
    def marked_sql
      return sql.chomp if sql_offset.negative?

      start = 0
      marked = sql.lines.flat_map do |line|
        column = sql_offset - start
        start += line.bytesize
        is_here = column >= 0 && column < line.bytesize
        is_here ? [line.chomp, "#{" " * column}^"] : [line.chomp]
      end
      marked.join("\n")
    end
  end

  # Called with the name of a class: that class of the gem sqlite3, if it is loaded.
  stock = lambda do |name|
    ::SQLite3.const_get(name) if defined?(::SQLite3::Exception) && ::SQLite3.const_defined?(name)
  end

  # Any error of SQLite's or of its use.
  class Exception < (stock.call(:Exception) || ::StandardError)
    include Failure

    # Also those that are subclasses of classes of the gem sqlite3.
    def self.===(other)
      equal?(Manyhands::Exception) ? Failure === other : super
    end
  end

  %i[
    SQLException InternalException PermissionException AbortException BusyException LockedException MemoryException ReadOnlyException
    InterruptException IOException CorruptException NotFoundException FullException CantOpenException ProtocolException EmptyException
    SchemaChangedException TooBigException ConstraintException MismatchException MisuseException UnsupportedException
    AuthorizationException FormatException RangeException NotADatabaseException
  ].each do |name|
    const_set(name, Class.new(stock.call(name) || Exception) { include Failure })
  end
end
