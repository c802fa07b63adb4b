# frozen_string_literal: true

module Manyhands
  VERSION = "0.1.0"
end
