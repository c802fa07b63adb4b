# A hundred users, a thousand posts, ten thousand comments.
dice = Random.new(1)
now = Time.now
dated = { created_at: now, updated_at: now }
ActiveRecord::Base.transaction do
  User.insert_all!(1.upto(100).map { |n| { name: "user #{n}", about: Lorem.words(20, dice), **dated } })
  Post.insert_all!(1.upto(1000).map do |n|
    { user_id: dice.rand(1..100), title: "#{Lorem.words(4, dice)} #{n}", content: Lorem.words(60, dice), **dated }
  end)
  1.upto(10).each do
    Comment.insert_all!(1.upto(1000).map do
      { user_id: dice.rand(1..100), post_id: dice.rand(1..1000), body: Lorem.words(20, dice), **dated }
    end)
  end
end
