# frozen_string_literal: true

# SQLite for many writers: the surface of the gem sqlite3, without SQLITE_BUSY between programs that use it.
#
#   require "manyhands"
#
#   database = Manyhands::Database.new("app.db")
#   database.execute("INSERT INTO note (text) VALUES (?)", ["from Ruby"])

require "manyhands/version"
begin
  # Where several versions of Ruby share a folder.
  require "manyhands/#{RUBY_VERSION[/\A\d+\.\d+/]}/manyhands_native"
rescue LoadError
  require "manyhands/manyhands_native"
end
require "manyhands/constants"
require "manyhands/errors"
require "manyhands/database"

module Manyhands
  class << self
    # Whether several threads may use SQLite; they may.
    def threadsafe?
      threadsafe.positive?
    end

    # What SQLite counts for this process: {current:, highwater:}. `resets` sets the second to the first.
    def status(parameter, resets = false)
      process_status(parameter, resets ? true : false)
    end

    # Whether the databases are encrypted; they are not.
    def sqlcipher?
      false
    end
  end
end

require "manyhands/railtie" if defined?(::Rails::Railtie)
