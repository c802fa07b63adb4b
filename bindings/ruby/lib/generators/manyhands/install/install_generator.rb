# frozen_string_literal: true

# `bin/rails manyhands:install`: the adapter in config/database.yml, and config/litestream.yml, which keeps each database of production
# for every moment of the last days.

require "rails/generators"

module Manyhands
  module Generators
    class InstallGenerator < ::Rails::Generators::Base
      namespace "manyhands:install"
      desc "Changes config/database.yml to the adapter manyhands, and adds config/litestream.yml."
      source_root File.expand_path("templates", __dir__)

      ADAPTER = /^(\s*adapter:\s*)(["']?)sqlite3\2(\s*(?:#.*)?)$/.freeze

      def change_adapter
        text = File.read(File.join(destination_root, "config/database.yml"))
        return say_status(:identical, "config/database.yml: no adapter is sqlite3", :blue) unless text.match?(ADAPTER)

        gsub_file "config/database.yml", ADAPTER, '\1manyhands\3'
      end

      def add_litestream
        @databases = production_databases
        template "litestream.yml", "config/litestream.yml"
      end

      def say_what_is_next
        say <<~TEXT

          Next:
            bin/rails manyhands:doctor                              what is wrong, if anything
            litestream replicate -config config/litestream.yml      beside the server: backups to any moment
        TEXT
      end

      private

      # Those that production writes, as config/database.yml says by now.
      def production_databases
        yaml = ActiveSupport::ConfigurationFile.parse(File.join(destination_root, "config/database.yml"))
        all = ActiveRecord::DatabaseConfigurations.new(yaml).configs_for(env_name: "production")
        all.map(&:database).compact.uniq.reject { |database| database.empty? || database == ":memory:" }
      end
    end
  end
end
