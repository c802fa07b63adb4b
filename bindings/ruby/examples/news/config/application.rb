# The application. It has no Gemfile: what it needs is required here.
ENV["RAILS_ENV"] ||= "production"

require "logger"
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "action_view/railtie"
require "manyhands" if ENV.fetch("ADAPTER", "manyhands") == "manyhands"

class News < Rails::Application
  config.root = File.expand_path("..", __dir__)
  config.load_defaults Rails::VERSION::STRING.to_f
  config.eager_load = Rails.env.production?
  config.secret_key_base = ENV.fetch("SECRET_KEY_BASE") { "an example that keeps no secrets " * 2 }
  config.hosts.clear
  config.logger = Logger.new(ENV.fetch("LOG", File::NULL))
  config.log_level = :info
  config.active_record.schema_format = :ruby
  config.active_record.dump_schema_after_migration = false
  config.x.pause_seconds = ENV.fetch("PAUSE_MS", "0").to_f / 1000
  config.x.jobs = ENV["JOBS"] == "1"
  config.x.lease_seconds = ENV.fetch("LEASE_SECONDS", "30").to_f
end
