# frozen_string_literal: true

# What Rails has to know: its tasks, its console, the generator. `require "manyhands"` loads this file where Rails is.

require "manyhands/active_record"

module Manyhands
  # `bin/rails dbconsole`: Rails until 7.0 knows the consoles of its own adapters only.
  module Console
    def start
      return super unless db_config.adapter == "manyhands"

      require "active_record/connection_adapters/manyhands_adapter"
      ActiveRecord::ConnectionAdapters::ManyhandsAdapter.dbconsole(db_config, @options)
    end
  end

  class Railtie < ::Rails::Railtie
    initializer "manyhands.console" do
      ::Rails::DBConsole.prepend(Console) if defined?(::Rails::DBConsole) && ::Rails.gem_version < Gem::Version.new("7.1")
    end

    rake_tasks do
      require "manyhands/adapter/database_tasks"
      ActiveRecord::Tasks::DatabaseTasks.register_task(/manyhands/, "Manyhands::Adapter::DatabaseTasks")
      load File.expand_path("tasks.rake", __dir__)
    end

    generators { require_relative "../generators/manyhands/install/install_generator" }
  end
end
