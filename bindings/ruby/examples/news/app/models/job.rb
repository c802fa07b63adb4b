# A queue of jobs in a table. A worker claims a job for LEASE_SECONDS with one statement. It commits what the job writes together with
# the job's end, and only if the job is still its own. A worker that dies leaves a claim that runs out.
class Job < ApplicationRecord
  # Of two workers, and of two claims of one worker.
  class ClaimLost < StandardError; end

  KINDS = {
    "notify" => lambda do |comment_id|
      comment = Comment.find(comment_id)
      Notice.create!(comment: comment, user: comment.post.user)
    end
  }.freeze

  def self.enqueue(kind, *arguments)
    create!(kind: kind, arguments: arguments.to_json)
  end

  # Claims and runs the oldest job that waits. False if none does.
  def self.work_off_one(worker = "#{Process.pid}-#{SecureRandom.hex(4)}")
    job = claim(worker) or return false
    job.run_and_finish
    true
  rescue ClaimLost
    true
  end

  def self.claim(worker, now = Time.now.to_f)
    find_by_sql([<<~SQL, { worker: worker, now: now, until: now + Rails.configuration.x.lease_seconds }]).first
      UPDATE jobs SET worker = :worker, claimed_until = :until
      WHERE id = (SELECT id FROM jobs INDEXED BY unfinished_jobs
                  WHERE finished_at IS NULL AND coalesce(claimed_until, 0) < :now ORDER BY id LIMIT 1)
      RETURNING *
    SQL
  end

  def run_and_finish
    transaction do
      finished = Job.where(id: id, worker: worker, finished_at: nil).update_all(finished_at: Time.now)
      raise ClaimLost, "job #{id} took longer than its lease, and is another worker's now" if finished.zero?

      KINDS.fetch(kind).call(*JSON.parse(arguments))
    end
  end
end
