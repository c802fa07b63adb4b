# frozen_string_literal: true

# The example `news`, with a database of its own, under Puma: what the tests of whole sites begin with.

require "minitest/autorun"
require "net/http"
require "rbconfig"
require "socket"
require "timeout"
require "tmpdir"

# Programs that a test starts find the gem, too.
ENV["RUBYLIB"] = File.expand_path("../../lib", __dir__)

class Site
  NEWS = File.expand_path("../../examples/news", __dir__)
  STARTS_WITHIN = 60
  attr_reader :folder, :port

  def initialize(folder, **variables)
    @folder = folder
    @port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    @variables = {
      "DATABASE" => database, "PORT" => @port.to_s, "RAILS_ENV" => "production", "ADAPTER" => "manyhands", "LOG" => "#{folder}/log",
      "DISABLE_DATABASE_ENVIRONMENT_CHECK" => "1"
    }.merge(variables.transform_keys(&:to_s))
    @children = []
  end

  def database
    "#{folder}/news.sqlite3"
  end

  def run(*words)
    output = IO.popen(@variables, words, chdir: NEWS, err: %i[child out], &:read)
    raise "#{words.join(' ')}:\n#{output}" unless $?.success?

    output
  end

  def rails(*words)
    run(RbConfig.ruby, "bin/rails", *words)
  end

  # What a program of Ruby prints in the application.
  def ask(program)
    rails("runner", program).strip
  end

  def spawn(*words)
    Process.spawn(@variables, *words, chdir: NEWS, %i[out err] => ["#{folder}/output", "a"]).tap { |child| @children << child }
  end

  def start
    @puma = spawn("puma", "-C", "config/puma.rb")
    Timeout.timeout(STARTS_WITHIN) { sleep 0.05 until get("/posts/1") == 200 }
  rescue Timeout::Error
    raise "the site does not start:\n#{File.read("#{folder}/output")}"
  end

  # Puma's processes, which start again when they are killed.
  def workers
    File.read("/proc/#{@puma}/task/#{@puma}/children").split.map(&:to_i)
  end

  def get(path)
    request(Net::HTTP::Get.new(path))
  end

  def post(path, **form)
    request(Net::HTTP::Post.new(path).tap { |request| request.set_form_data(form) })
  end

  # A signal, and the end of a child.
  def finish(child, signal)
    Process.kill(signal, child)
    Process.wait(child)
  ensure
    @children.delete(child)
  end

  def stop
    @children.dup.each { |child| finish(child, "KILL") }
  end

  private

  # The status, or nil when nobody answers.
  def request(request)
    Net::HTTP.start("127.0.0.1", @port, open_timeout: 5, read_timeout: 30) { |http| http.request(request).code.to_i }
  rescue SystemCallError, IOError, Net::OpenTimeout, Net::ReadTimeout
    nil
  end
end

class SiteCase < Minitest::Test
  # Seconds, on a machine that does much else.
  ENOUGH_WITHIN = 120

  # A site on seeded tables; it is stopped, and its folder is gone afterwards.
  def with_site(**variables)
    Dir.mktmpdir do |folder|
      site = Site.new(folder, **variables)
      site.rails("db:schema:load", "db:seed")
      yield site
    ensure
      site&.stop
    end
  end

  # Each block in a thread of its own, again and again, until so many times one has given something. All that was given.
  def together(count, *blocks)
    given = Queue.new
    work = lambda do |block|
      while given.size < count
        something = block.call
        given << something unless something.nil?
      end
    end
    Timeout.timeout(ENOUGH_WITHIN) { blocks.map { |block| Thread.new { work.call(block) } }.each(&:join) }
    Array.new(given.size) { given.pop }
  end
end
