// The worker of Go's mattn/go-sqlite3, built with the tag libsqlite3; README.md says what a worker does.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	_ "github.com/mattn/go-sqlite3"
)

var (
	// One connection of the pool: a worker is one writer.
	connection *sql.Conn
	writer     int
	idSum      int64
	prepared   *sql.Stmt
	background = context.Background()
)

func expect(holds bool, what string) error {
	if !holds {
		return fmt.Errorf("wrong answer: %s", what)
	}
	return nil
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func insert(n int) error {
	_, err := connection.ExecContext(background, fmt.Sprintf("INSERT INTO event (writer, n) VALUES (%d, %d)", writer, n))
	return err
}

func readThenWrite(int) error {
	transaction, err := connection.BeginTx(background, nil)
	if err != nil {
		return err
	}
	defer transaction.Rollback()
	var count int
	if err := transaction.QueryRow("SELECT n FROM counter WHERE id = 1").Scan(&count); err != nil {
		return err
	}
	if _, err := transaction.Exec("UPDATE counter SET n = ? WHERE id = 1", count+1); err != nil {
		return err
	}
	return transaction.Commit()
}

func insertPrepared(n int) error {
	result, err := prepared.Exec(writer, n)
	if err != nil {
		return err
	}
	id, err := result.LastInsertId()
	if err != nil {
		return err
	}
	idSum += id
	changes, err := result.RowsAffected()
	if err != nil {
		return err
	}
	return expect(changes == 1, "changes")
}

func selectItem(n int) error {
	id := n%1000 + 1
	var found int
	if err := prepared.QueryRow(id).Scan(&found); err != nil {
		return err
	}
	return expect(found == id*7, "item")
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	must(err)
	job := os.Args[3]
	writer, err = strconv.Atoi(os.Args[4])
	must(err)
	database, err := sql.Open("sqlite3", "file:"+os.Args[1]+"?_busy_timeout=5000&_synchronous=FULL")
	must(err)
	connection, err = database.Conn(background)
	must(err)
	text := map[string]string{
		"prepared": "INSERT INTO event (writer, n) VALUES (?, ?)",
		"select":   "SELECT n FROM item WHERE id = ?",
	}[job]
	if text != "" {
		prepared, err = connection.PrepareContext(background, text)
		must(err)
	}
	work := map[string]func(int) error{
		"insert": insert, "read-then-write": readThenWrite, "prepared": insertPrepared, "select": selectItem,
	}[job]
	var version string
	must(connection.QueryRowContext(background, "SELECT sqlite_version()").Scan(&version))

	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	var done, errors int
	var wait time.Duration
	var firstError string
	began := time.Now()
	now := began
	for n := 0; now.Sub(began).Seconds() < seconds; n++ {
		if err := work(n); err == nil {
			done++
		} else {
			errors++
			if firstError == "" {
				firstError = err.Error()
			}
		}
		before := now
		now = time.Now()
		wait = max(wait, now.Sub(before))
	}
	line, err := json.Marshal(map[string]any{
		"done": done, "errors": errors, "first_error": firstError, "wait_ms_max": wait.Seconds() * 1000,
		"seconds": now.Sub(began).Seconds(), "id_sum": idSum, "sqlite": version,
	})
	must(err)
	fmt.Println(string(line))
}
