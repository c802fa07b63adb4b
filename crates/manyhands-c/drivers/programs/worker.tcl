# The worker of Tcl's sqlite3; README.md says what a worker does.
package require sqlite3
lassign $argv path seconds job writer
sqlite3 database $path
database timeout 5000
database eval {PRAGMA synchronous=FULL}
set id_sum 0

proc expect {holds what} {
    if {!$holds} { error "wrong answer: $what" }
}

# The driver keeps what it has prepared by its text, so each job's text is constant but that of `insert`.
proc insert {n} {
    database eval "INSERT INTO event (writer, n) VALUES ($::writer, $n)"
}

proc read-then-write {n} {
    if {[catch {
        database eval {BEGIN}
        set count [expr {[database onecolumn {SELECT n FROM counter WHERE id = 1}] + 1}]
        database eval {UPDATE counter SET n = $count WHERE id = 1}
        database eval {COMMIT}
    } message]} {
        catch {database eval {ROLLBACK}}
        error $message
    }
}

proc prepared {n} {
    database eval {INSERT INTO event (writer, n) VALUES ($::writer, $n)}
    incr ::id_sum [database last_insert_rowid]
    expect [expr {[database changes] == 1}] changes
}

proc select {n} {
    set id [expr {$n % 1000 + 1}]
    set found [database onecolumn {SELECT n FROM item WHERE id = $id}]
    expect [expr {$found == $id * 7}] "item $id"
}

set version [database onecolumn {SELECT sqlite_version()}]
puts ready
flush stdout
gets stdin
set done 0; set errors 0; set wait 0; set n 0; set first_error ""
set began [clock microseconds]
set now $began
while {$now - $began < $seconds * 1e6} {
    if {[catch {$job $n} message]} {
        incr errors
        if {$first_error eq ""} { set first_error $message }
    } else {
        incr done
    }
    incr n
    set before $now
    set now [clock microseconds]
    if {$now - $before > $wait} { set wait [expr {$now - $before}] }
}
set first_error [string map {\\ \\\\ \" \\\" \n { }} $first_error]
puts "{\"done\": $done, \"errors\": $errors, \"first_error\": \"$first_error\", \"wait_ms_max\": [expr {$wait / 1e3}],\
    \"seconds\": [expr {($now - $began) / 1e6}], \"id_sum\": $id_sum, \"sqlite\": \"$version\"}"
