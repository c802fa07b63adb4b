# frozen_string_literal: true

# How ActiveRecord's transactions become those of Manyhands.
#
#   transaction                          reads on a snapshot, and takes its turn before it writes. If what it has read was changed
#                                        in between, its first write raises ActiveRecord::SerializationFailure
#   transaction(retry: true)             runs its block once more after that, in its turn
#   transaction(isolation: :immediate)   waits for its turn first, and can meet no such change
#   lock, lock!, with_lock               the transaction takes its turn before this read
#
# A transaction is strictly serializable, so that it keeps what each of the standard's isolation levels asks for.

module Manyhands
  module Adapter
    module Transactions
      LEVELS = %i[read_uncommitted read_committed repeatable_read serializable].freeze

      # `retry` means nothing inside another transaction: what was read there would still be stale.
      def transaction(**options, &block)
        again = options.delete(:retry) && !transaction_open?
        begin
          super(**options, &block)
        rescue ActiveRecord::SerializationFailure
          raise unless again

          super(**options, isolation: :immediate, &block)
        end
      end

      def begin_db_transaction
        begin_in_mode(@begin_mode || @config[:default_transaction_mode])
      end

      def begin_isolated_db_transaction(isolation)
        return begin_in_mode(:immediate) if isolation == :immediate
        return begin_db_transaction if LEVELS.include?(isolation)

        known = [*LEVELS, :immediate].map(&:inspect).join(", ")
        raise ActiveRecord::TransactionIsolationError, "#{isolation.inspect} is no isolation level: there are #{known}"
      end

      # `relation.lock` has no SQL in SQLite. Here it is the transaction that locks.
      def select_all(arel, *arguments, **options)
        # An application's model may have a scope of the name `locked`.
        query = arel.is_a?(ActiveRecord::Relation) ? arel.arel : arel
        take_turn(query) if query.is_a?(Arel::SelectManager) && query.locked && transaction_open?
        super
      end

      # Rails until 7.0 takes a transaction with such an error for one that the server has ended, and throws its connection away. It is open.
      module OpenAfterFailure
        def rollback_transaction(transaction = nil)
          state = (transaction || current_transaction).state
          state.nullify! if state.invalidated?
          super
        end
      end

      def reset_transaction(**options)
        super
        @transaction_manager.extend(OpenAfterFailure) unless self.class::OPENS_ITSELF
      end

      private

      def begin_in_mode(mode)
        log(["begin", mode, "transaction"].compact.join(" "), "TRANSACTION") do
          if self.class::OPENS_ITSELF
            with_raw_connection(allow_retry: true, materialize_transactions: false) do |database|
              database.transaction(mode).tap { verified! }
            end
          else
            @connection.transaction(mode)
          end
        end
        @in_turn = mode.to_s == "immediate"
      end

      # A transaction that has not sent its BEGIN begins in its turn. One that has goes there with a write that writes nothing.
      def take_turn(query)
        @begin_mode = :immediate
        materialize_transactions
        table = query.source.left
        return if @in_turn || !table.respond_to?(:name)

        exec_query("DELETE FROM #{quote_table_name(table.name)} WHERE 0 RETURNING 1", "LOCK")
        @in_turn = true
      ensure
        @begin_mode = nil
      end
    end
  end
end
