# WORKERS processes with THREADS threads each. The workers are forked from one process that has loaded the application.
worker_count = ENV.fetch("WORKERS", "4").to_i
threads(*[ENV.fetch("THREADS", "3").to_i] * 2)
port ENV.fetch("PORT", "3000")
environment ENV.fetch("RAILS_ENV", "production")
if worker_count > 1
  workers worker_count
  preload_app!
  # SQLite's connections do not survive a fork.
  before_fork { ActiveRecord::Base.connection_handler.clear_all_connections! }
end
