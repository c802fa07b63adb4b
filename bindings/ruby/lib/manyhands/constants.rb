# frozen_string_literal: true

# SQLite's numbers, with the names that the gem sqlite3 gives them.

module Manyhands
  module Constants
    # How texts are stored, and what a function promises.
    module TextRep
      UTF8 = 1
      UTF16LE = 2
      UTF16BE = 3
      UTF16 = 4
      ANY = 5
      DETERMINISTIC = 0x800
    end

    module ColumnType
      INTEGER = 1
      FLOAT = 2
      TEXT = 3
      BLOB = 4
      NULL = 5
    end

    module ErrorCode
      %i[
        OK ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN PROTOCOL EMPTY
        SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB NOTICE WARNING
      ].each_with_index { |name, code| const_set(name, code) }
      ROW = 100
      DONE = 101
    end

    # What Manyhands.status counts.
    module Status
      %i[
        MEMORY_USED PAGECACHE_USED PAGECACHE_OVERFLOW SCRATCH_USED SCRATCH_OVERFLOW MALLOC_SIZE PARSER_STACK PAGECACHE_SIZE
        SCRATCH_SIZE MALLOC_COUNT
      ].each_with_index { |name, number| const_set(name, number) }
    end

    # What PRAGMA optimize does.
    module Optimize
      DEBUG = 0x00001
      ANALYZE_TABLES = 0x00002
      LIMIT_ANALYZE = 0x00010
      CHECK_ALL_TABLES = 0x10000
      DEFAULT = ANALYZE_TABLES | LIMIT_ANALYZE
    end

    # The flags of a connection.
    module Open
      READONLY = 0x00000001
      READWRITE = 0x00000002
      CREATE = 0x00000004
      DELETEONCLOSE = 0x00000008
      EXCLUSIVE = 0x00000010
      AUTOPROXY = 0x00000020
      URI = 0x00000040
      MEMORY = 0x00000080
      MAIN_DB = 0x00000100
      TEMP_DB = 0x00000200
      TRANSIENT_DB = 0x00000400
      MAIN_JOURNAL = 0x00000800
      TEMP_JOURNAL = 0x00001000
      SUBJOURNAL = 0x00002000
      SUPER_JOURNAL = 0x00004000
      MASTER_JOURNAL = SUPER_JOURNAL
      NOMUTEX = 0x00008000
      FULLMUTEX = 0x00010000
      SHAREDCACHE = 0x00020000
      PRIVATECACHE = 0x00040000
      WAL = 0x00080000
    end
  end
end
