class ApplicationController < ActionController::Base
  # Its forms are programs that know no token.
  skip_forgery_protection

  private

  def show_post(post)
    @post = post
    @comments = post.comments.includes(:user).order(:id).last(50)
    render "posts/show"
  end
end
