# frozen_string_literal: true

# The adapter's name, for programs with ActiveRecord and without Rails. In an application the railtie does it.

require "active_record"
require "active_record/database_configurations"

module Manyhands
  # From 7.2 on an adapter is registered. Earlier versions look for its file.
  if ActiveRecord::ConnectionAdapters.respond_to?(:register)
    ActiveRecord::ConnectionAdapters.register(
      "manyhands", "ActiveRecord::ConnectionAdapters::ManyhandsAdapter", "active_record/connection_adapters/manyhands_adapter"
    )
  end

  # `manyhands:/var/app.db` is absolute, as `sqlite3:/var/app.db` is.
  module DatabasePath
    private

    def database_from_path
      @adapter == "manyhands" ? uri.path : super
    end
  end
  ActiveRecord::DatabaseConfigurations::ConnectionUrlResolver.prepend(DatabasePath)
end
