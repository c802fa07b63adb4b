# frozen_string_literal: true

# One of several processes: reads a number and writes it back with one more, so many times, in plain transactions. Prints what went wrong.
#
#   ruby counter.rb ADAPTER DATABASE TIMES [MODE]     MODE: retry, lock

require "active_record"
if ARGV[0] == "manyhands"
  require "manyhands"
  require "manyhands/active_record"
end

class Counter < ActiveRecord::Base; end

adapter, database, times, mode = ARGV
ActiveRecord::Base.establish_connection(adapter: adapter, database: database, timeout: 20_000)
errors = Hash.new(0)
times.to_i.times do
  Counter.transaction(**(mode == "retry" ? { retry: true } : {})) do
    counter = (mode == "lock" ? Counter.lock : Counter).find(1)
    counter.update!(n: counter.n + 1)
  end
rescue ActiveRecord::ActiveRecordError => error
  errors[error.class.name] += 1
end
puts errors.map { |name, count| "#{count} #{name}" }
