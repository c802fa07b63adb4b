# frozen_string_literal: true

# The example as a site: no request is refused, whoever is killed takes nothing with him that was acknowledged, and each job takes effect once.

require_relative "site"

class SiteTest < SiteCase
  REQUESTS = 100

  def test_requests_at_once_are_all_answered
    with_site(WORKERS: "2", THREADS: "3") do |site|
      site.start
      writers = Array.new(6) { -> { site.post("/posts") } }
      commenters = Array.new(2) { -> { site.post("/comments") } }
      readers = Array.new(2) { -> { site.get("/") } }
      statuses = together(REQUESTS, *writers, *commenters, *readers)
      assert_equal [200], statuses.uniq
    end
  end

  def test_killed_workers_lose_no_acknowledged_post
    with_site(WORKERS: "3", THREADS: "3") do |site|
      site.start
      number = 0
      lock = Mutex.new
      write = lambda do
        title = "title #{lock.synchronize { number += 1 }}"
        [title, site.post("/posts", title: title)]
      end
      kills = 0
      kill = lambda do
        sleep 0.3
        site.workers.sample&.then { |worker| Process.kill("KILL", worker) && kills += 1 }
        nil
      end
      outcomes = together(REQUESTS, *Array.new(8) { write }, kill)
      acknowledged = outcomes.select { |_, status| status == 200 }.map(&:first)
      assert_operator kills, :>=, 2
      assert_operator acknowledged.size, :>=, REQUESTS / 10
      assert_empty outcomes.map(&:last).uniq - [200, nil], "an answer, or none from who was killed"
      found = site.ask("puts Post.where('title LIKE ?', 'title %').pluck(:title)").split("\n")
      assert_empty acknowledged - found
      assert_empty found - outcomes.map(&:first)
      assert_equal found.uniq, found
      assert_equal "ok #{found.size}", site.ask("puts ActiveRecord::Base.connection.select_value('PRAGMA integrity_check') + ' ' + User.sum(:posts_count).to_s")
    end
  end

  def test_killed_workers_lose_no_job_and_run_none_twice
    with_site(WORKERS: "1", THREADS: "3", JOBS: "1", LEASE_SECONDS: "1") do |site|
      site.start
      jobs = ["ruby", "bin/jobs"]
      workers = Array.new(3) { site.spawn(*jobs) }
      kill = lambda do
        sleep 0.4
        workers.shift.then { |worker| site.finish(worker, "KILL") }
        workers << site.spawn(*jobs)
        nil
      end
      statuses = together(REQUESTS, *Array.new(4) { -> { site.post("/comments") } }, kill)
      assert_equal [200], statuses.uniq
      Timeout.timeout(60) { sleep 0.2 until site.ask("puts Job.where(finished_at: nil).count") == "0" }
      jobs, comments, told = site.ask("p Job.count; p Comment.where('id > 10000').order(:id).pluck(:id), Notice.order(:comment_id).pluck(:comment_id)").split("\n")
      assert_equal statuses.size.to_s, jobs
      assert_equal comments, told, "one notice of each comment"
      workers.each { |worker| assert site.finish(worker, "TERM") }
    end
  end
end
