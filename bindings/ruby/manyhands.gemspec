# frozen_string_literal: true

require_relative "lib/manyhands/version"

Gem::Specification.new do |gem|
  gem.name = "manyhands"
  gem.version = Manyhands::VERSION
  gem.summary = "SQLite for many writers: the surface of the gem sqlite3 without SQLITE_BUSY"
  gem.authors = ["Manyhands"]
  gem.licenses = ["MIT", "Apache-2.0"]
  gem.homepage = "https://github.com/manyhands/manyhands"
  gem.required_ruby_version = ">= 3.1"
  gem.files = Dir.chdir(__dir__) { Dir["lib/**/*.{rb,so}"] + ["README.md"] }
  gem.require_paths = ["lib"]
end
