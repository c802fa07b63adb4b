class PostsController < ApplicationController
  # A hundred posts from anywhere.
  def index
    @posts = Post.includes(:user).where(id: rand(1..Post.maximum(:id))..).order(:id).limit(100)
  end

  def show
    show_post Post.find(params[:id])
  end

  # A title that is not given is made up.
  def create
    title = params[:title] || "#{Lorem.words(4)} #{SecureRandom.uuid}"
    show_post Post.create!(user: User.any, title: title, content: Lorem.words(60))
  end
end
