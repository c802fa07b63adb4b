require "bundler"
Bundler.gems_with_path.each { |_, folder| $LOAD_PATH.unshift(File.join(folder, "lib")) }
