ActiveRecord::Schema.define do
  create_table :users, force: :cascade do |t|
    t.string :name, null: false, index: { unique: true }
    t.text :about
    t.integer :posts_count, null: false, default: 0
    t.timestamps
  end

  create_table :posts, force: :cascade do |t|
    t.references :user, null: false, foreign_key: true
    t.string :title, null: false, index: { unique: true }
    t.text :content, null: false
    t.integer :comments_count, null: false, default: 0
    t.timestamps
  end

  create_table :comments, force: :cascade do |t|
    t.references :user, null: false, foreign_key: true
    t.references :post, null: false, foreign_key: true
    t.text :body, null: false
    t.timestamps
  end

  create_table :jobs, force: :cascade do |t|
    t.string :kind, null: false
    t.text :arguments, null: false
    t.string :worker
    t.float :claimed_until
    t.datetime :finished_at
    t.datetime :created_at, null: false
    # Jobs that are finished leave this index, so that the search for the next one stays short.
    t.index :id, where: "finished_at IS NULL", name: "unfinished_jobs"
  end

  create_table :notices, force: :cascade do |t|
    t.references :user, null: false, foreign_key: true
    t.references :comment, null: false, foreign_key: true
  end
end
