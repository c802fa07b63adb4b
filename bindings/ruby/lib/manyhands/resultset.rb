# frozen_string_literal: true

# The rows of a statement, one by one.

module Manyhands
  class ResultSet
    include Enumerable

    def initialize(database, statement)
      @database = database
      @statement = statement
    end

    # Goes back to the first row, with other parameters perhaps.
    def reset(*parameters)
      @statement.reset!
      @statement.bind_params(*parameters)
    end

    # Whether all rows were read.
    def eof?
      @statement.done?
    end

    # The next row, as an array; nil at the end.
    def next
      @statement.step
    end

    # The next row, as a hash of column names; nil at the end.
    def next_hash
      row = @statement.step
      row && @statement.columns.zip(row).to_h
    end

    def each
      @statement.must_be_open!
      return enum_for(:each) unless block_given?

      while (row = self.next)
        yield row
      end
    end

    def each_hash
      @statement.must_be_open!
      return enum_for(:each_hash) unless block_given?

      while (row = next_hash)
        yield row
      end
    end

    # Closes the statement.
    def close
      @statement.close
    end

    def closed?
      @statement.closed?
    end

    # The declared types of the columns, in lower case.
    def types
      @statement.types
    end

    def columns
      @statement.columns
    end
  end

  # Rows are hashes.
  class HashResultSet < ResultSet
    alias next next_hash
  end
end
