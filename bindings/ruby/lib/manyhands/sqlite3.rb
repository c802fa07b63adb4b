# frozen_string_literal: true

# Stands in for the gem sqlite3: after `require "manyhands/sqlite3"`, `require "sqlite3"` finds this, and SQLite3::Database is
# Manyhands::Database.

if defined?(::SQLite3::Database)
  raise LoadError, "the gem sqlite3 is loaded already: require \"manyhands/sqlite3\" before it" unless defined?(::Manyhands) && ::SQLite3::Database.equal?(::Manyhands::Database)
else
  require "manyhands"

  module SQLite3
    # The version of the gem sqlite3 whose surface this is.
    VERSION = "2.9.6"
    SQLITE_PACKAGED_LIBRARIES = true
    SQLITE_PRECOMPILED_LIBRARIES = false

    VERSION_INFO = {
      ruby: RUBY_DESCRIPTION,
      gem: { version: VERSION },
      sqlite: { compiled: Manyhands::SQLITE_VERSION, loaded: Manyhands::SQLITE_LOADED_VERSION, packaged: true, precompiled: false,
                sqlcipher: false, threadsafe: Manyhands.threadsafe },
      manyhands: Manyhands::VERSION
    }.freeze

    (Manyhands.constants - [:VERSION]).each { |name| const_set(name, Manyhands.const_get(name)) }

    class << self
      %i[libversion threadsafe threadsafe? status sqlcipher?].each do |name|
        define_method(name) { |*arguments| Manyhands.public_send(name, *arguments) }
      end
    end
  end

  class String
    # The text as a value that is stored as bytes.
    def to_blob
      Manyhands::Blob.new(self)
    end
  end

  # Whoever requires a file of the gem has it already.
  %w[
    sqlite3 sqlite3/constants sqlite3/database sqlite3/errors sqlite3/fork_safety sqlite3/pragmas sqlite3/resultset sqlite3/sqlite3_native
    sqlite3/statement sqlite3/value sqlite3/version sqlite3/version_info
  ].each do |feature|
    $LOADED_FEATURES << File.expand_path("stand_in/#{feature}.rb", __dir__)
  end
  $LOAD_PATH.unshift(File.expand_path("stand_in", __dir__))

  module Manyhands
    # Whatever version of the gem sqlite3 a program asks for, it has it.
    module StandIn # :nodoc:
      private

      def gem(name, *requirements)
        name == "sqlite3" ? true : super
      end
    end
  end
  Kernel.prepend(Manyhands::StandIn)
end
