# frozen_string_literal: true

# SQL functions, aggregates and collations: the several ways in which the gem sqlite3 takes them.

module Manyhands
  class Database
    # What a function or an aggregate is given besides its arguments: it has a result, and keeps what it likes for its group.
    class FunctionProxy
      attr_accessor :result

      def initialize
        @result = nil
        @kept = {}
      end

      def [](key)
        @kept[key]
      end

      def []=(key, value)
        @kept[key] = value
      end
    end

    # Makes a function of a block, whose value is the result.
    def define_function(name, &block)
      define_function_with_flags(name, Constants::TextRep::UTF8, &block)
    end

    # The same with flags, such as Constants::TextRep::DETERMINISTIC.
    def define_function_with_flags(name, flags, &block)
      add_function(name, block.arity, flags, block)
    end

    # Makes a function of a block, which is given a FunctionProxy for the result before its arguments.
    def create_function(name, _arity, flags = Constants::TextRep::UTF8, &block)
      define_function_with_flags(name, flags) do |*arguments|
        proxy = FunctionProxy.new
        block.call(proxy, *arguments)
        proxy.result
      end
      self
    end

    # Makes an aggregate of two procs, or of a block that calls `step` and `finalize` with blocks. Each is given a FunctionProxy first.
    def create_aggregate(name, arity, step = nil, finalize = nil, _text_rep = Constants::TextRep::ANY, &block)
      declared = AggregateDeclaration.new(step, finalize)
      declared.instance_eval(&block) if block
      add_aggregate(name, checked_arity(arity), declared.to_class)
    end

    # Makes an aggregate of a class that has the class methods name and arity, and whose objects have step and finalize. Both are given a
    # FunctionProxy first.
    def create_aggregate_handler(handler)
      proxied = Class.new(handler) do
        def step(*arguments)
          super(@manyhands_proxy ||= FunctionProxy.new, *arguments)
        end

        def finalize
          super(@manyhands_proxy ||= FunctionProxy.new)
          @manyhands_proxy.result
        end
      end
      add_aggregate(handler.name, checked_arity(handler.respond_to?(:arity) ? handler.arity : -1), proxied)
      self
    end

    # Makes an aggregate of an object with step and finalize: each group is a clone of it.
    def define_aggregator(name, aggregator)
      factory = Object.new
      factory.define_singleton_method(:new) { aggregator.clone }
      add_aggregate(name, checked_arity(aggregator.method(:step).arity), factory)
      self
    end

    # Adds a collation: an object whose method compare is given two texts, and answers with a number less than, equal to or greater than
    # 0. nil takes it away.
    def collation(name, comparator)
      add_collation(name, comparator)
      @collations[name] = comparator
      self
    end

    # What a block of create_aggregate declares.
    class AggregateDeclaration # :nodoc:
      def initialize(step, finalize)
        @step = step
        @finalize = finalize
      end

      def step(&block)
        @step = block
      end

      def finalize(&block)
        @finalize = block
      end

      def to_class
        declared_step = @step
        declared_finalize = @finalize
        Class.new do
          define_method(:declared_step, declared_step)
          define_method(:declared_finalize, declared_finalize)

          def step(*arguments)
            declared_step(@proxy ||= FunctionProxy.new, *arguments)
          end

          def finalize
            declared_finalize(@proxy ||= FunctionProxy.new)
            @proxy.result
          end
        end
      end
    end
    private_constant :AggregateDeclaration

    private

    def checked_arity(arity)
      raise ArgumentError, "Aggregator arity=#{arity} out of range -1..127" unless (-1..127).cover?(arity)

      arity
    end
  end
end
