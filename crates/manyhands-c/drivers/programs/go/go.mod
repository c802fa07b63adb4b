// The worker of Go. Its tag libsqlite3 takes the installed SQLite, whose place the preloaded library takes.
module worker

go 1.21

require github.com/mattn/go-sqlite3 v1.14.53
