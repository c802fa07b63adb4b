// Others at the same file: how long a program waits, what it is asked meanwhile, and what ends that.
#include "story.h"
#include <pthread.h>
#include <sys/wait.h>

static int asked;
static int ask(void *most, int count) {
    CHECK(count == asked);
    asked++;
    return count < *(int *)most;
}

// Drivers sleep, and give way to other threads of their language, in their busy handler.
static void a_busy_handler_is_asked_while_it_waits_and_gives_up(sqlite3 *db, sqlite3 *holder) {
    int most = 20;
    run(holder, "BEGIN IMMEDIATE; INSERT INTO n VALUES (0)");
    OK(db, sqlite3_busy_handler(db, ask, &most));
    double began = seconds();
    CHECK_CODE(db, SQLITE_BUSY, sqlite3_exec(db, "INSERT INTO n VALUES (1)", 0, 0, 0));
    CHECK(asked == most + 1 && seconds() - began < 2 && strcmp(sqlite3_errmsg(db), "database is locked") == 0);
    run(holder, "ROLLBACK");
    run(db, "INSERT INTO n VALUES (1)");
}

static void a_timeout_of_zero_tries_once(sqlite3 *db, sqlite3 *holder) {
    run(holder, "BEGIN IMMEDIATE");
    OK(db, sqlite3_busy_timeout(db, 0));
    double began = seconds();
    CHECK_CODE(db, SQLITE_BUSY, sqlite3_exec(db, "INSERT INTO n VALUES (1)", 0, 0, 0));
    CHECK(seconds() - began < 0.5);
    OK(db, sqlite3_busy_timeout(db, 300));
    CHECK(number(db, "PRAGMA busy_timeout") == 300);
    began = seconds();
    CHECK_CODE(db, SQLITE_BUSY, sqlite3_exec(db, "INSERT INTO n VALUES (1)", 0, 0, 0));
    CHECK(seconds() - began > 0.25 && seconds() - began < 3);
    run(holder, "COMMIT");
}

static void *interrupt_later(void *db) {
    usleep(200 * 1000);
    sqlite3_interrupt(db);
    return 0;
}

static void an_interrupt_wakes_who_waits(sqlite3 *db, sqlite3 *holder) {
    pthread_t other;
    run(holder, "BEGIN IMMEDIATE");
    OK(db, sqlite3_busy_timeout(db, 60 * 1000));
    pthread_create(&other, 0, interrupt_later, db);
    double began = seconds();
    CHECK_CODE(db, SQLITE_INTERRUPT, sqlite3_exec(db, "INSERT INTO n VALUES (1)", 0, 0, 0));
    CHECK(seconds() - began < 10);
    pthread_join(other, 0);
    run(holder, "COMMIT");
}

static void *insert_many(void *db) {
    sqlite3_stmt *insert;
    OK(db, sqlite3_prepare_v2(db, "INSERT INTO n VALUES (?)", -1, &insert, 0));
    for (int row = 0; row < 500; row++) {
        OK(db, sqlite3_bind_int(insert, 1, row));
        CHECK_CODE(db, SQLITE_DONE, sqlite3_step(insert));
        OK(db, sqlite3_reset(insert));
    }
    OK(db, sqlite3_finalize(insert));
    return 0;
}

static void threads_share_a_connection(sqlite3 *db) {
    pthread_t threads[4];
    long long before = number(db, "SELECT count(*) FROM n");
    for (int thread = 0; thread < 4; thread++) pthread_create(&threads[thread], 0, insert_many, db);
    for (int thread = 0; thread < 4; thread++) pthread_join(threads[thread], 0);
    CHECK(number(db, "SELECT count(*) FROM n") == before + 2000);
}

static void add_in_process(void) {
    sqlite3 *db = open_app();
    sqlite3_stmt *read, *write;
    OK(db, sqlite3_prepare_v2(db, "SELECT n FROM counter", -1, &read, 0));
    OK(db, sqlite3_prepare_v2(db, "UPDATE counter SET n = ?", -1, &write, 0));
    for (int round = 0; round < 300; round++) {
        run(db, "BEGIN");
        CHECK_CODE(db, SQLITE_ROW, sqlite3_step(read));
        int n = sqlite3_column_int(read, 0);
        // It stays open in the middle of its rows, as many drivers leave it.
        OK(db, sqlite3_bind_int(write, 1, n + 1));
        CHECK_CODE(db, SQLITE_DONE, sqlite3_step(write));
        OK(db, sqlite3_reset(write));
        OK(db, sqlite3_reset(read));
        run(db, "COMMIT");
    }
    OK(db, sqlite3_finalize(read));
    OK(db, sqlite3_finalize(write));
    OK(db, sqlite3_close(db));
    exit(0);
}

// With SQLite alone nearly all of these fail.
static void processes_read_and_then_write(sqlite3 *db) {
    run(db, "CREATE TABLE counter (n); INSERT INTO counter VALUES (0)");
    for (int process = 0; process < 6; process++) {
        if (fork() == 0) add_in_process();
    }
    for (int process = 0; process < 6; process++) {
        int status;
        CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK(number(db, "SELECT n FROM counter") == 1800);
}

// A connection that crossed a fork is refused, and its parent goes on.
static void a_child_cannot_use_its_parents_connection(sqlite3 *db) {
    pid_t child = fork();
    if (child == 0) {
        CHECK(sqlite3_exec(db, "INSERT INTO n VALUES (-1)", 0, 0, 0) != SQLITE_OK);
        sqlite3 *own = open_app();
        run(own, "INSERT INTO n VALUES (-2)");
        OK(own, sqlite3_close(own));
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(number(db, "SELECT count(*) FROM n WHERE n = -1") == 0);
    CHECK(number(db, "SELECT count(*) FROM n WHERE n = -2") == 1);
}

int main(void) {
    sqlite3 *db = open_app(), *holder = open_app();
    run(db, "CREATE TABLE n (n)");
    a_busy_handler_is_asked_while_it_waits_and_gives_up(db, holder);
    a_timeout_of_zero_tries_once(db, holder);
    an_interrupt_wakes_who_waits(db, holder);
    threads_share_a_connection(db);
    processes_read_and_then_write(db);
    a_child_cannot_use_its_parents_connection(db);
    OK(holder, sqlite3_close(holder));
    OK(db, sqlite3_close(db));
    return 0;
}
