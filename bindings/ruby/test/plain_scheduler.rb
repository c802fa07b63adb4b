# frozen_string_literal: true

# A fiber scheduler as small as the interface allows: sleeps, blocked fibers, and nothing of I/O but what wakes it up.

class PlainScheduler
  def initialize
    @ready = []
    @blocked = {}
    @sleeping = {}
    @lock = Mutex.new
    @awake, @wake = IO.pipe
  end

  def run
    until @sleeping.empty? && @blocked.empty? && @lock.synchronize { @ready.empty? }
      rest
      ready = @lock.synchronize { @ready.slice!(0..) }
      ready.each { |fiber| fiber.resume if fiber.alive? }
      time = now
      due = @sleeping.select { |_, at| at <= time }.keys
      due.each do |fiber|
        @sleeping.delete(fiber)
        fiber.resume if fiber.alive?
      end
    end
  end

  def close
    run
  ensure
    [@awake, @wake].each { |pipe| pipe.close unless pipe.closed? }
  end

  def fiber(&block)
    Fiber.new(blocking: false, &block).tap(&:resume)
  end

  def kernel_sleep(seconds = nil)
    block(nil, seconds)
    true
  end

  # Called by a fiber that waits for a mutex, a queue or a thread.
  def block(_blocker, timeout = nil)
    fiber = Fiber.current
    timeout ? @sleeping[fiber] = now + timeout : @blocked[fiber] = true
    Fiber.yield
    !timeout
  ensure
    @sleeping.delete(fiber)
    @blocked.delete(fiber)
  end

  # Called in any thread.
  def unblock(_blocker, fiber)
    @lock.synchronize { @ready << fiber }
    @wake.write_nonblock(".", exception: false)
  rescue IOError
    # Nobody waits any more: the thread of the scheduler was killed.
  end

  def io_wait(io, events, timeout)
    readers = [io] if (events & IO::READABLE).positive?
    writers = [io] if (events & IO::WRITABLE).positive?
    IO.select(readers, writers, nil, timeout) ? events : false
  end

  private

  # Waits until somebody is to go on.
  def rest
    return if @lock.synchronize { @ready.any? }

    first = @sleeping.values.min
    @awake.wait_readable(first && [first - now, 0].max)
    @awake.read_nonblock(4096, exception: false)
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
