class Comment < ApplicationRecord
  belongs_to :user
  belongs_to :post, counter_cache: true

  validates :body, presence: true

  # In the comment's own transaction: there is a job if, and only if, there is a comment.
  after_create { Job.enqueue("notify", id) } if Rails.configuration.x.jobs
end
