# Tells the author of a post of a new comment.
class Notice < ApplicationRecord
  belongs_to :user
  belongs_to :comment
end
