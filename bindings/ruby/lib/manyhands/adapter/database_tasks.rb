# frozen_string_literal: true

# `bin/rails db:create`, `db:drop` and so on: those of SQLite, which leave the files beside the database where they are.

require "active_record"
require "active_record/tasks/sqlite_database_tasks"

module Manyhands
  module Adapter
    class DatabaseTasks < ActiveRecord::Tasks::SQLiteDatabaseTasks
      BESIDE = %w[-wal -shm -hands].freeze

      def drop
        super
      ensure
        file = File.expand_path(db_config.database, root)
        FileUtils.rm_f(BESIDE.map { |ending| file + ending })
      end
    end
  end
end
