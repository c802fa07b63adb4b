class User < ApplicationRecord
  has_many :posts
  has_many :comments
  has_many :notices

  validates :name, presence: true, uniqueness: true
end
