# Bundler's part in the guides: gems of the Gemfile that have a path. All others are Debian's, and found without it.
module Bundler
  WITH_PATH = /^gem "([^"]+)", path: "([^"]+)"/.freeze
  # Puma gives it to the processes that it starts.
  ORIGINAL_ENV = ENV.to_h.freeze

  def self.gems_with_path
    File.read(ENV.fetch("BUNDLE_GEMFILE")).scan(WITH_PATH)
  end

  def self.require(*)
    gems_with_path.each { |name, _| Kernel.require name }
  end

  def self.with_unbundled_env
    yield
  end
end
