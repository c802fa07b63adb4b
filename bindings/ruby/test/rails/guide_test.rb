# frozen_string_literal: true

# The guides are right: their blocks are run as they stand, one after the other, in one shell and one folder. `installed` plays Bundler, since nothing
# is fetched here: Debian's Rails and Puma are there, and the gem is this tree's.
#
#   sh tested          commands
#   sh tested server   a program that goes on meanwhile
#   ruby tested        for `bin/rails runner`
#
# With LITESTREAM the guide to backups follows that to Rails, which it goes on from.

require "minitest/autorun"
require "open3"
require "socket"
require "tmpdir"

class GuideTest < Minitest::Test
  TREE = File.expand_path("../../../..", __dir__)
  INSTALLED = File.expand_path("installed", __dir__)
  GUIDES = ["docs/guides/rails.md", ("docs/guides/backup.md" if ENV["LITESTREAM"])].compact
  FENCE = /^```(\w+)(?: (.*))?\n((?:.*\n)*?)^```$/.freeze
  KINDS = [%w[sh tested], ["sh", "tested server"], %w[ruby tested]].freeze
  # What is only shown: it fetches something.
  SHOWN = "go install"

  def test_the_commands_do_what_the_guides_say
    Dir.mktmpdir do |folder|
      script = GUIDES.flat_map { |guide| blocks(guide) }.map { |language, info, body| command(language, info, body) } + [readme]
      output, status = Open3.capture2e(environment, "timeout", "300", "bash", "-eu", "-c", script.join("\n"), chdir: folder)
      assert status.success?, output
      assert_includes output, "gsub  config/database.yml"
      assert_includes output, "ok     primary: a turn came after"
      refute_includes output, "WRONG"
      assert_match(/^posts: 40$/, output)
      assert_match(/^votes: 160$/, output)
      assert_match(/^README: 1$/, output)
      assert_match(/^then: 40\nnow: 41\nok$/, output) if ENV["LITESTREAM"]
      refute_empty Dir.glob("#{folder}/news/*/production.sqlite3-hands"), "SQLite alone did it"
    ensure
      # Whatever the guides have started.
      Dir.glob("/proc/[0-9]*/cwd").each { |link| stop(link, folder) }
    end
  end

  def test_each_block_of_commands_is_tested
    GUIDES.each do |guide|
      text = File.read("#{TREE}/#{guide}")
      text.scan(FENCE).each do |language, info, body|
        assert KINDS.include?([language, info]) || body.start_with?(SHOWN), "#{guide} has a block that no test runs:\n#{body}"
      end
      assert_equal text.scan("```").size, 2 * text.scan(FENCE).size
    end
  end

  private

  # What README shows of Rails, in the same application: its settings, and its transactions.
  def readme
    section = File.read("#{TREE}/README.md")[/^## Ten lines of Rails\n.*?(?=^## )/m]
    (_, _, settings), (_, _, program) = section.scan(FENCE)
    program = "Post.create!(title: 'title 1')\n#{program}puts \"README: \#{Post.sum(:votes)}\"\n"
    "cat > config/database.yml <<'YAML'\n#{settings}YAML\nbin/rails db:prepare\n#{command('ruby', 'tested', program)}"
  end

  def blocks(guide)
    File.read("#{TREE}/#{guide}").scan(FENCE).select { |language, info, _| KINDS.include?([language, info]) }
  end

  def command(language, info, body)
    return "bin/rails runner - <<'RUBY'\n#{body}RUBY" if language == "ruby"
    return body unless info == "tested server"

    answers = %(timeout 30 sh -c 'until curl -s "http://127.0.0.1:$PORT" >&2; do sleep 0.2; done' 2>/dev/null || { cat server.log; exit 1; })
    "( #{body.chomp} ) > server.log 2>&1 &\n#{body.include?('rails server') ? answers : 'sleep 2'}"
  end

  def environment
    port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    path = [INSTALLED, ENV["LITESTREAM"] && File.dirname(ENV["LITESTREAM"]), ENV.fetch("PATH")].compact.join(":")
    { "PATH" => path, "RUBYLIB" => INSTALLED, "MANYHANDS" => TREE, "PORT" => port.to_s, "RUBYOPT" => "-W0", "EDITOR" => nil, "DISABLE_SPRING" => "1" }
  end

  def stop(link, folder)
    Process.kill("KILL", link[/\d+/].to_i) if File.readlink(link).start_with?(folder)
  rescue SystemCallError
    nil
  end
end
