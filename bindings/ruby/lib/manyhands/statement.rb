# frozen_string_literal: true

require "manyhands/resultset"

# Statements: what is Ruby's own about them. Preparing, binding and stepping are in src/statement.rs.

module Manyhands
  class Statement
    include Enumerable

    # What stands in the text behind the first statement.
    attr_reader :remainder

    # Compiles the first statement of a text.
    def initialize(database, sql)
      raise ArgumentError, "prepare called on a closed database" if database.closed?

      sql = sql.encode(Encoding::UTF_8) if sql && sql.encoding != Encoding::UTF_8
      @connection = database
      @columns = nil
      @types = nil
      @remainder = prepare(database, sql)
    end

    # Binds values in their order, and those of a hash by their names.
    def bind_params(*values)
      index = 0
      values.flatten.each do |value|
        if value.is_a?(Hash)
          value.each { |name, named| bind_param(name, named) }
        else
          bind_param(index += 1, value)
        end
      end
    end

    # Binds values, and gives the rows. A statement without rows is executed at once.
    def execute(*values)
      reset! if active? || done?
      bind_params(*values) unless values.empty?
      results = @connection.build_result_set(self)
      step if column_count.zero?
      yield results if block_given?
      results
    end

    # The same: gives all rows, or calls the block with each.
    def execute!(*values, &block)
      execute(*values)
      block ? each(&block) : to_a
    end

    # Whether not all rows were read.
    def active?
      !done?
    end

    def each
      return enum_for(:each) unless block_given?

      while (row = step)
        yield row
      end
      self
    end

    # The names of the columns.
    def columns
      @columns ||= Array.new(column_count) { |column| column_name(column) }
    end

    # The declared types of the columns, in lower case; nil for an expression.
    def types
      must_be_open!
      @types ||= Array.new(column_count) { |column| column_decltype(column)&.downcase }
    end

    def must_be_open! # :nodoc:
      raise Exception, "cannot use a closed statement" if closed?
    end

    # What SQLite has counted for the statement: all of it, or what `key` names, such as :fullscan_steps.
    def stat(key = nil)
      key ? stat_for(key) : stats_as_hash
    end
  end
end
