# frozen_string_literal: true

# A value behind a handle, for drivers of the first days of the gem sqlite3: kept since the name is public there.

module Manyhands
  class Value
    TYPES = { 1 => :int, 2 => :float, 3 => :text, 4 => :blob, 5 => :null }.freeze
    private_constant :TYPES

    attr_reader :handle

    def initialize(database, handle)
      @driver = database.driver
      @handle = handle
    end

    def null?
      type == :null
    end

    def to_blob
      @driver.value_blob(@handle)
    end

    def length(utf16 = false)
      utf16 ? @driver.value_bytes16(@handle) : @driver.value_bytes(@handle)
    end

    def to_f
      @driver.value_double(@handle)
    end

    def to_i
      @driver.value_int(@handle)
    end

    def to_int64
      @driver.value_int64(@handle)
    end

    def to_s(utf16 = false)
      @driver.value_text(@handle, utf16)
    end

    def type
      TYPES[@driver.value_type(@handle)]
    end
  end
end
