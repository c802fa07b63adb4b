# frozen_string_literal: true

namespace :manyhands do
  desc "Change config/database.yml to the adapter manyhands, and add a Litestream configuration"
  task install: :environment do
    require "rails/generators"
    Rails::Generators.invoke("manyhands:install", [], behavior: :invoke, destination_root: Rails.root)
  end

  desc "Look at the databases of this environment, and say what is wrong with them and with how they are used"
  task doctor: :environment do
    require "manyhands/doctor"
    exit Manyhands::Doctor.new(Rails.application, $stdout).examine ? 0 : 1
  end
end
