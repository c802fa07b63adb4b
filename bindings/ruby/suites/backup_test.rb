# frozen_string_literal: true

# Litestream beside a site that is written and whose processes are killed: what it has kept is the database of each moment.
#
#   LITESTREAM=target/litestream/bin/litestream ruby backup_test.rb      (`make suites-rails` builds it)

require "json"
require "time"
require "securerandom"
require "yaml"
require_relative "../test/rails/site"

class BackupTest < SiteCase
  LITESTREAM = ENV.fetch("LITESTREAM")
  TABLES = %w[users posts comments].freeze
  # That are acknowledged before the next thing happens.
  POSTS = 60
  # Litestream copies once a second, if it can.
  COPIED_WITHIN = 120

  def test_every_moment_can_be_restored
    with_site(WORKERS: "3", THREADS: "3") do |site|
      configure(site)
      site.start
      litestream = replicate(site)
      posts = write(site) { kill_a_worker(site) }
      wait_until_copied(site, posts)
      moment = Time.now.utc
      sleep 1.1 # Litestream's copies have their times in whole seconds or less
      then_written = rows(site.database)

      more = write(site) { kill_a_worker(site) }
      site.finish(litestream, "KILL")
      more += write(site) { kill_a_worker(site) }
      replicate(site)
      more += write(site) { kill_a_worker(site) }
      wait_until_copied(site, posts + more)
      now_written = rows(site.database)
      site.stop

      assert_equal then_written, rows(restore(site, "moment", "-timestamp", moment.iso8601(3)))
      assert_equal now_written, rows(restore(site, "latest"))
      refute_equal then_written, now_written
    end
  end

  private

  def configure(site)
    settings = { "path" => site.database, "replica" => { "path" => "#{site.folder}/backup", "sync-interval" => "1s" } }
    File.write("#{site.folder}/litestream.yml", { "dbs" => [settings] }.to_yaml)
  end

  # First all of the database: what was written and checkpointed while it was away Litestream does not notice by itself.
  def replicate(site)
    site.run(LITESTREAM, "replicate", "-once", "-force-snapshot", "-config", "#{site.folder}/litestream.yml")
    site.spawn(LITESTREAM, "replicate", "-config", "#{site.folder}/litestream.yml")
  end

  def restore(site, name, *options)
    restored = "#{site.folder}/#{name}.sqlite3"
    FileUtils.rm_f(Dir.glob("#{restored}*"))
    site.run(LITESTREAM, "restore", "-config", "#{site.folder}/litestream.yml", *options, "-o", restored, site.database)
    restored
  end

  # The titles that were acknowledged.
  def write(site)
    kill = lambda do
      sleep 0.4
      yield
      nil
    end
    write_one = lambda do
      title = "title #{SecureRandom.uuid}"
      title if site.post("/posts", title: title) == 200
    end
    together(POSTS, *Array.new(6) { write_one }, kill)
  end

  def kill_a_worker(site)
    site.workers.sample&.then { |worker| Process.kill("KILL", worker) }
  end

  # Nobody writes any more: whoever was killed may have written what was not acknowledged.
  def wait_until_copied(site, titles)
    written = rows(site.database)
    assert_empty titles - written["posts"].map { |row| row["title"] }
    Timeout.timeout(COPIED_WITHIN) { sleep 1 until rows(restore(site, "look")) == written }
  rescue Timeout::Error
    flunk "Litestream does not come to what was written:\n#{File.readlines("#{site.folder}/output").grep(/level=(WARN|ERROR)/).last(20).join}"
  end

  # All rows of all tables, as another SQLite program reads them.
  def rows(database)
    TABLES.to_h do |table|
      output = IO.popen(["sqlite3", "-json", "-readonly", database, "SELECT * FROM #{table} ORDER BY id"], &:read)
      [table, JSON.parse(output)]
    end
  end
end
