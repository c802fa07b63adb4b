class ApplicationRecord < ActiveRecord::Base
  self.abstract_class = true

  # An application that waits for a file or a service inside its transactions.
  if (seconds = Rails.configuration.x.pause_seconds).positive?
    after_create { sleep seconds }
  end

  # A row at random, by an id that may have been deleted.
  def self.any
    where(id: rand(1..maximum(:id))..).order(:id).first
  end
end
