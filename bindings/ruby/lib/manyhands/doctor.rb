# frozen_string_literal: true

# `bin/rails manyhands:doctor`: looks at each database of the environment, and says what is wrong. It writes nothing into a database.

module Manyhands
  class Doctor
    # A WAL is reused when nobody reads an old part of it any more.
    WAL_BYTES_MAX = 64 << 20
    # File systems of several machines, which have no shared memory.
    REMOTE = %w[nfs nfs4 cifs smb2 smbfs ceph 9p lustre glusterfs afs].freeze

    def initialize(application, output)
      @application = application
      @output = output
      @healthy = true
    end

    # True if nothing is wrong.
    def examine
      configurations = ActiveRecord::Base.configurations.configs_for(env_name: ::Rails.env)
      wrong("config/database.yml", "has no database for #{::Rails.env}") if configurations.empty?
      configurations.each { |configuration| examine_database(configuration) }
      examine_backup(configurations) if ::Rails.env.production?
      @healthy
    end

    private

    def examine_database(configuration)
      name = configuration.name
      unless configuration.adapter == "manyhands"
        return wrong(name, "has the adapter #{configuration.adapter}: bin/rails manyhands:install changes sqlite3 to manyhands")
      end

      path = File.expand_path(configuration.database.to_s, ::Rails.root)
      return wrong(name, "#{path} is not there: bin/rails db:prepare makes it") unless File.exist?(path)

      examine_place(name, path)
      examine_connection(name, configuration)
      examine_threads(name, configuration)
      examine_files(name, path)
    end

    def examine_place(name, path)
      folder = File.dirname(path)
      wrong(name, "#{folder} cannot be written: SQLite has files beside the database") unless File.writable?(folder)
      type = file_system(path)
      return wrong(name, "lies on #{type}: one machine's processes only can share a database") if REMOTE.include?(type)

      right(name, "#{path}, on #{type}")
    end

    def examine_connection(name, configuration)
      database = Manyhands::Database.new(File.expand_path(configuration.database, ::Rails.root))
      mode = database.get_first_value("PRAGMA journal_mode")
      mode == "wal" ? right(name, "journal mode WAL") : wrong(name, "has the journal mode #{mode}, in which readers and writers wait for each other")
      level = (configuration.configuration_hash[:pragmas] || {}).stringify_keys.fetch("synchronous", "full").to_s
      right(name, "synchronous=#{level}: #{level == 'full' ? 'a commit survives a power cut' : 'the last commits may be lost with the power'}")
      seconds = measure do
        database.transaction(:immediate)
        database.rollback
      end
      seconds < 1 ? right(name, "a turn came after #{(seconds * 1000).round(1)} ms") : wrong(name, "a turn came after #{seconds.round(1)} s: some transaction is open for long")
    rescue StandardError => error
      wrong(name, "cannot be used: #{error.message}")
    ensure
      database&.close
    end

    def examine_threads(name, configuration)
      threads = ENV.fetch("RAILS_MAX_THREADS", "0").to_i
      pool = configuration.pool.to_i
      return if threads <= pool

      wrong(name, "has a pool of #{pool} connections for #{threads} threads (RAILS_MAX_THREADS): a thread waits for a connection, not for SQLite")
    end

    def examine_files(name, path)
      bytes = File.size?("#{path}-wal").to_i
      wrong(name, "has a WAL of #{bytes >> 20} MB: some reader, or Litestream, stays on an old snapshot") if bytes > WAL_BYTES_MAX
      without = processes_with(path).reject { |process| process == Process.pid || uses_queue?(process, path) }
      without.each { |process| right(name, "process #{process} (#{command(process)}) has it open as SQLite alone, which works: it takes the lock in its turn") }
    end

    def examine_backup(configurations)
      file = ::Rails.root.join("config/litestream.yml")
      return wrong("backup", "there is no config/litestream.yml: bin/rails manyhands:install adds it") unless file.exist?

      kept = (YAML.safe_load(file.read) || {}).fetch("dbs", []).map { |database| File.expand_path(database["path"], ::Rails.root) }
      configurations.reject { |configuration| configuration.configuration_hash[:replica] }.each do |configuration|
        next if kept.include?(File.expand_path(configuration.database.to_s, ::Rails.root))

        wrong(configuration.name, "is not in config/litestream.yml, and so has no backup")
      end
    end

    def file_system(path)
      mounts = File.readlines("/proc/mounts").map { |line| line.split.values_at(1, 2) }
      mounts.select { |folder, _| folder == "/" || path.start_with?("#{folder}/") }.max_by { |folder, _| folder.size }&.last || "an unknown file system"
    end

    # Those of which we may know it.
    def processes_with(path)
      Dir.glob("/proc/[0-9]*/fd/*").select { |link| reads_link(link) == path }.map { |link| link[/\d+/].to_i }.uniq
    end

    def reads_link(link)
      File.readlink(link)
    rescue SystemCallError
      nil
    end

    def uses_queue?(process, path)
      File.read("/proc/#{process}/maps").include?("#{path}-hands")
    rescue SystemCallError
      false
    end

    def command(process)
      File.read("/proc/#{process}/cmdline").tr("\0", " ").strip
    rescue SystemCallError
      "gone"
    end

    def measure
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      yield
      Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
    end

    def right(name, what)
      @output.puts "ok     #{name}: #{what}"
    end

    def wrong(name, what)
      @healthy = false
      @output.puts "WRONG  #{name} #{what}"
    end
  end
end
