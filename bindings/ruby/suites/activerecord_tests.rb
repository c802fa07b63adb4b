# Loads the files of tests that SUITE_TESTS names, in the folder of Rails' activerecord; minitest runs them at the end. ADAPTER=manyhands makes the
# adapter known first.

if ENV["ADAPTER"] == "manyhands"
  require "manyhands/sqlite3"
  require "manyhands/active_record"
end

ENV.fetch("SUITE_TESTS").split.each do |file|
  require File.expand_path(file)
rescue LoadError => error
  # What needs a package that is not installed is left out, with either adapter.
  warn "#{file}: #{error.message}"
end
