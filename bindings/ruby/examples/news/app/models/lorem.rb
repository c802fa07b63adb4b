# Words that say nothing.
module Lorem
  WORDS = %w[
    lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna aliqua
  ].freeze

  def self.words(count, dice = Random)
    Array.new(count) { WORDS[dice.rand(WORDS.size)] }.join(" ")
  end
end
