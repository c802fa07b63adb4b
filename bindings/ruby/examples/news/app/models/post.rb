class Post < ApplicationRecord
  belongs_to :user, counter_cache: true
  has_many :comments

  validates :title, presence: true, uniqueness: true, length: { minimum: 5 }
  validates :content, presence: true
end
