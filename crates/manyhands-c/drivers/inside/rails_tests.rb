# Loads the files of tests that SUITE_TESTS names, in the folder of Rails' activerecord; minitest runs them at the end.
ENV.fetch("SUITE_TESTS").split.each do |file|
  require File.expand_path(file)
rescue LoadError => error
  # What needs a package that is not installed is left out, with any library.
  warn "#{file}: #{error.message}"
end
