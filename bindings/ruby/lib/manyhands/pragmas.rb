# frozen_string_literal: true

# A method for each PRAGMA of SQLite's, as in the gem sqlite3.

module Manyhands
  module Pragmas
    ENUMS = {
      synchronous: { "full" => 2, "normal" => 1, "off" => 0 },
      temp_store: { "default" => 0, "file" => 1, "memory" => 2 },
      auto_vacuum: { "none" => 0, "full" => 1, "incremental" => 2 },
      journal_mode: %w[delete truncate persist memory wal off].to_h { |name| [name, name] },
      locking_mode: %w[normal exclusive].to_h { |name| [name, name] },
      encoding: %w[utf-8 utf-16 utf-16le utf-16be].to_h { |name| [name, name] },
      wal_checkpoint: %w[passive full restart truncate].to_h { |name| [name, name] }
    }.transform_values(&:freeze).freeze

    SYNCHRONOUS_MODES = ENUMS[:synchronous]
    TEMP_STORE_MODES = ENUMS[:temp_store]
    AUTO_VACUUM_MODES = ENUMS[:auto_vacuum]
    JOURNAL_MODES = ENUMS[:journal_mode]
    LOCKING_MODES = ENUMS[:locking_mode]
    ENCODINGS = ENUMS[:encoding]
    WAL_CHECKPOINTS = ENUMS[:wal_checkpoint]

    SWITCHES = { "on" => "'ON'", "yes" => "'ON'", "true" => "'ON'", "y" => "'ON'", "t" => "'ON'",
                 "off" => "'OFF'", "no" => "'OFF'", "false" => "'OFF'", "n" => "'OFF'", "f" => "'OFF'" }.freeze
    private_constant :ENUMS, :SWITCHES

    # Whether a PRAGMA is on.
    def get_boolean_pragma(name)
      get_first_value("PRAGMA #{name}") != 0
    end

    # Switches a PRAGMA on or off: true, 1, "on", "yes" and so on, or their contrary.
    def set_boolean_pragma(name, mode)
      word =
        case mode
        when true, 1 then "ON"
        when false, 0, nil then "OFF"
        when String then SWITCHES[mode.downcase]
        end
      raise Exception, "unrecognized pragma parameter #{mode.inspect}" unless word

      execute("PRAGMA #{name}=#{word}")
    end

    # The rows of a PRAGMA that is a query.
    def get_query_pragma(name, *parameters, &block)
      arguments = "( '#{parameters.join("','")}' )" unless parameters.empty?
      execute("PRAGMA #{name}#{arguments}", &block)
    end

    # The value of a PRAGMA that has one of several.
    def get_enum_pragma(name)
      get_first_value("PRAGMA #{name}")
    end

    # Sets it to one of `enums`: a hash of names and values, or an array of arrays of names for the same.
    def set_enum_pragma(name, mode, enums)
      found =
        if enums.is_a?(Array)
          enums.find { |names| names.any? { |it| it.to_s.casecmp?(mode.to_s) } }
        elsif mode.is_a?(String)
          enums.fetch(mode.downcase)
        else
          mode
        end
      raise Exception, "unrecognized #{name} #{mode.inspect}" unless found

      execute("PRAGMA #{name}='#{found}'")
    end

    def get_int_pragma(name)
      get_first_value("PRAGMA #{name}").to_i
    end

    def set_int_pragma(name, value)
      execute("PRAGMA #{name}=#{value.to_i}")
    end

    # Defines methods that read, and methods that write, for each of these names.
    define = lambda do |reader, writer, reads, writes|
      reads.each { |name| define_method(name) { send(reader, name) } } if reader
      writes.each { |name| define_method(:"#{name}=") { |value| send(writer, name, value) } } if writer
    end

    switches = %i[
      automatic_index cache_spill cell_size_check checkpoint_fullfsync count_changes defer_foreign_keys foreign_keys full_column_names
      fullfsync legacy_file_format query_only read_uncommitted recursive_triggers reverse_unordered_selects secure_delete
      short_column_names vdbe_trace
    ]
    only_written = %i[
      case_sensitive_like ignore_check_constraints parser_trace vdbe_addoptrace vdbe_debug vdbe_listing writable_schema
    ]
    define.call(:get_boolean_pragma, :set_boolean_pragma, switches, switches + only_written)

    numbers = %i[
      application_id busy_timeout cache_size default_cache_size journal_size_limit max_page_count mmap_size page_size schema_cookie
      schema_version soft_heap_limit threads user_cookie user_version wal_autocheckpoint
    ]
    only_read = %i[data_version freelist_count page_count]
    define.call(:get_int_pragma, :set_int_pragma, numbers + only_read, numbers)

    words = %i[
      auto_vacuum default_synchronous default_temp_store encoding journal_mode locking_mode synchronous temp_store wal_checkpoint
    ]
    define.call(:get_enum_pragma, nil, words, [])
    %i[auto_vacuum synchronous temp_store default_synchronous default_temp_store].each do |name|
      modes = ENUMS.fetch(name.to_s.delete_prefix("default_").to_sym)
      define_method(:"#{name}=") { |mode| set_enum_pragma(name, mode, modes) }
    end
    %i[encoding journal_mode locking_mode wal_checkpoint].each do |name|
      modes = ENUMS.fetch(name)
      define_method(:"#{name}=") do |mode|
        raise Exception, "unrecognized #{name} #{mode.inspect}" unless modes.key?(mode.to_s.downcase)

        set_enum_pragma(name, mode, modes)
      end
    end

    # Queries with parameters or without.
    %i[
      collation_list compile_options database_list foreign_key_check foreign_key_list incremental_vacuum index_info index_list index_xinfo
      integrity_check quick_check stats
    ].each do |name|
      define_method(name) { |*parameters, &block| get_query_pragma(name, *parameters, &block) }
    end

    # Has SQLite look at tables whose statistics may help; `mask` is made of Constants::Optimize.
    def optimize(mask = nil)
      mask ? set_int_pragma("optimize", mask) : execute("PRAGMA optimize")
    end

    def shrink_memory
      execute("PRAGMA shrink_memory")
    end

    # A hash for each column of a table, its default value without quotes.
    def table_info(table)
      rows = prepare("PRAGMA table_info(#{table})") do |statement|
        names = statement.columns
        statement.map { |row| describe_column(names.zip(row).to_h) }
      end
      return rows unless block_given?

      rows.each { |row| yield row }
      nil
    end

    private

    def describe_column(column)
      column["type"] = column["type"]&.downcase
      column["dflt_value"] =
        case (value = column["dflt_value"])
        when /\Anull\z/i then nil
        when /\A'(.*)'\z/m then Regexp.last_match(1).gsub("''", "'")
        when /\A"(.*)"\z/m then Regexp.last_match(1).gsub('""', '"')
        else value
        end
      column
    end
  end
end
