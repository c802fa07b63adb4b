# frozen_string_literal: true

# Transactions beside those of others: what ActiveRecord's words mean here.

require_relative "database_case"

class TransactionsTest < DatabaseCase
  def setup
    super
    create_accounts
  end

  # A transaction that has read what another one changes before its first write. The kinds of statement are new for each test: what
  # transactions will do is learnt from those that begin with the same statements.
  def stale(**options)
    runs = 0
    number = rand(1 << 60)
    Account.transaction(**options) do
      runs += 1
      cents = Account.find_by_sql("SELECT *, #{number} FROM accounts WHERE owner = 'a'").first.cents
      elsewhere { Account.where(owner: "a").update_all("cents = cents + 1") } if runs == 1
      Account.where(owner: "a").update_all(cents: cents + 10)
    end
    runs
  end

  def test_a_stale_read_is_a_serialization_failure
    error = assert_raises(ActiveRecord::SerializationFailure) { stale }
    assert_kind_of ActiveRecord::TransactionRollbackError, error, "what retry_on asks for"
    assert_equal 101, Account.find_by(owner: "a").cents
  end

  def test_retry_runs_the_block_once_more_in_its_turn
    sent = statements { assert_equal 2, stale(retry: true) }
    assert_equal ["begin transaction", "begin immediate transaction"], sent.grep(/\Abegin/).values_at(0, -1)
    assert_equal 111, Account.find_by(owner: "a").cents
  end

  def test_retry_gives_back_what_the_block_gives
    assert_equal 7, Account.transaction(retry: true) { 7 }
  end

  def test_a_failure_that_is_no_conflict_is_not_retried
    runs = 0
    assert_raises(ActiveRecord::RecordNotUnique) { Account.transaction(retry: true) { (runs += 1) && Account.create!(owner: "a") } }
    assert_equal 1, runs
  end

  def test_after_a_failure_the_connection_is_as_before
    before = connection
    assert_raises(ActiveRecord::SerializationFailure) { stale }
    assert_same before, connection
    refute connection.transaction_open?
    Account.transaction { Account.create!(owner: "c") && raise(ActiveRecord::Rollback) }
    assert_equal 2, Account.count
  end

  def test_retry_inside_another_transaction_does_not_help
    assert_raises(ActiveRecord::SerializationFailure) { Account.transaction { stale(retry: true) } }
  end

  def test_retry_around_another_transaction_does
    outer = 0
    Account.transaction(retry: true) { (outer += 1) == 1 ? stale(retry: true) : nil }
    assert_equal 2, outer
  end

  def test_retry_around_a_savepoint_does
    outer = 0
    Account.transaction(retry: true) { Account.transaction(requires_new: true) { (outer += 1) == 1 ? stale : Account.create!(owner: "c") } }
    assert_equal 2, outer
    assert_equal 3, Account.count
  end

  def test_immediate_waits_for_its_turn_first
    sent = statements { Account.transaction(isolation: :immediate) { Account.first.update!(cents: 1) } }
    assert_includes sent, "begin immediate transaction"
  end

  def test_the_levels_of_the_standard_are_kept_by_every_transaction
    %i[read_uncommitted read_committed repeatable_read serializable].each do |level|
      Account.transaction(isolation: level) { Account.first.increment!(:cents) }
    end
    assert_equal 104, Account.first.cents
    error = assert_raises(ActiveRecord::TransactionIsolationError) { Account.transaction(isolation: :chaos) { Account.first } }
    assert_match(/:chaos is no isolation level: there are .*:serializable, :immediate/, error.message)
  end

  def test_the_mode_of_every_transaction_can_be_set
    connect(default_transaction_mode: "immediate")
    assert_includes statements { Account.transaction { Account.first } }, "begin immediate transaction"
  end

  def test_a_nested_transaction_is_a_savepoint
    Account.transaction do
      Account.create!(owner: "outer")
      Account.transaction(requires_new: true) do
        Account.create!(owner: "inner")
        raise ActiveRecord::Rollback
      end
      Account.transaction(requires_new: true) { Account.create!(owner: "kept") }
    end
    assert_equal %w[a b kept outer], Account.order(:owner).pluck(:owner)
  end

  def test_a_rollback_leaves_nothing
    Account.transaction { Account.create!(owner: "c") && raise(ActiveRecord::Rollback) }
    assert_equal 2, Account.count
  end

  # Nobody else can write between the locked read and the write.
  def test_a_locked_read_takes_the_turn
    first_is_locked = ->(&block) { Account.transaction { block.call } }
    [-> { Account.lock.find_by!(owner: "a") }, -> { Account.find_by!(owner: "a").lock! }, -> { Account.first && Account.lock.first }].each do |read|
      first_is_locked.call do
        read.call
        connection_error = elsewhere { with_timeout(50) { Account.where(owner: "b").update_all(cents: 1) } }
        assert_kind_of ActiveRecord::StatementTimeout, connection_error
      end
    end
  end

  def test_a_scope_may_be_called_locked
    model = Class.new(ActiveRecord::Base) { self.table_name = "accounts"; def self.name = "Scoped" }
    model.scope :locked, -> { raise "nobody asked for this scope" }
    Account.transaction { assert_equal 2, connection.select_all(model.all).rows.size }
    Account.transaction { assert_equal 2, connection.select_all(model.lock).rows.size }
  end

  def test_with_lock_reads_anew
    account = Account.find_by(owner: "a")
    elsewhere { Account.where(owner: "a").update_all(cents: 7) }
    account.with_lock { account.update!(cents: account.cents + 1) }
    assert_equal 8, Account.find_by(owner: "a").cents
  end

  def test_a_lock_outside_a_transaction_holds_nothing
    Account.lock.first
    elsewhere { Account.where(owner: "b").update_all(cents: 1) }
    assert_equal 1, Account.find_by(owner: "b").cents
  end

  def test_readers_wait_for_no_writer
    Account.transaction(isolation: :immediate) do
      Account.where(owner: "a").update_all(cents: 55)
      assert_equal 100, elsewhere { Account.find_by(owner: "a").cents }, "the last commit, at once"
    end
  end

  def test_callbacks_of_a_commit_run_once
    commits = []
    model = Class.new(ActiveRecord::Base) { self.table_name = "accounts"; def self.name = "Called" }
    model.after_commit { commits << owner }
    runs = 0
    model.transaction(retry: true) do
      runs += 1
      model.create!(owner: "run #{runs}")
      raise ActiveRecord::SerializationFailure, "as if" if runs == 1
    end
    assert_equal ["run 2"], commits
  end

  private

  # The error of a block whose statements wait for at most so many milliseconds, or nil.
  def with_timeout(milliseconds)
    connection.raw_connection.busy_timeout(milliseconds)
    yield && nil
  rescue ActiveRecord::ActiveRecordError => error
    error
  ensure
    connection.raw_connection.busy_timeout(5000)
  end
end
