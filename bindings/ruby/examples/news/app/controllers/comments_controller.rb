class CommentsController < ApplicationController
  def create
    post = params[:post_id] ? Post.find(params[:post_id]) : Post.any
    post.comments.create!(user: User.any, body: params[:body] || Lorem.words(20))
    show_post post
  end
end
