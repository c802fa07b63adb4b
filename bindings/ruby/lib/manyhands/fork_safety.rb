# frozen_string_literal: true

# Connections and fork(): a child lets go of the connections that it has inherited, without touching their files. Using one fails with an
# exception that says so.

module Manyhands
  module ForkSafety
    # Before Process.fork gives control to the child.
    module Hook # :nodoc:
      def _fork
        super.tap { |pid| ForkSafety.discard if pid.zero? }
      end
    end

    @databases = ObjectSpace::WeakMap.new
    @is_silent = false

    class << self
      def hook! # :nodoc:
        Process.singleton_class.prepend(Hook)
      end

      def track(database) # :nodoc:
        @databases[database] = true if Ractor.current == Ractor.main
      end

      # Called in the child.
      def discard # :nodoc:
        inherited = @databases.keys.reject(&:closed?)
        @databases = ObjectSpace::WeakMap.new
        return if inherited.empty?

        tell unless @is_silent
        inherited.each { |database| database.send(:discard) }
      end

      # The child says nothing.
      def suppress_warnings!
        @is_silent = true
      end

      private

      def tell
        warn("Writable sqlite database connection(s) were inherited from a forked process. They are closed in this one: open a new " \
             "connection here, or close connections before fork().", uplevel: 0)
      end
    end
  end
end

Manyhands::ForkSafety.hook!
