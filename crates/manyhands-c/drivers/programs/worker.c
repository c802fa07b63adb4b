/* The worker in C, by sqlite3.h alone; README.md says what a worker does. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static sqlite3 *database;
static sqlite3_stmt *prepared, *begin, *commit, *read_counter, *write_counter;
static int writer;
static sqlite3_int64 id_sum;
/* The text of the last error, which a ROLLBACK would wipe out. */
static char message[200];

static double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static sqlite3_stmt *prepare(const char *sql) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(database));
        exit(1);
    }
    return statement;
}

static void note(const char *text) {
    snprintf(message, sizeof message, "%s", text);
}

/* Runs a statement without rows to its end; what it gives is of no use before its reset has said so too. */
static int run(sqlite3_stmt *statement) {
    int stepped = sqlite3_step(statement);
    int reset = sqlite3_reset(statement);
    return stepped == SQLITE_DONE ? reset : stepped;
}

static int expect(int holds, const char *what) {
    if (!holds) note(what);
    return holds ? SQLITE_OK : SQLITE_MISMATCH;
}

static int do_insert(int n) {
    char sql[100];
    snprintf(sql, sizeof sql, "INSERT INTO event (writer, n) VALUES (%d, %d)", writer, n);
    return sqlite3_exec(database, sql, NULL, NULL, NULL);
}

static int count_one_more(void) {
    int result = run(begin);
    if (result != SQLITE_OK) return result;
    result = sqlite3_step(read_counter);
    if (result == SQLITE_ROW) {
        sqlite3_bind_int64(write_counter, 1, sqlite3_column_int64(read_counter, 0) + 1);
        result = sqlite3_reset(read_counter);
        if (result == SQLITE_OK) result = run(write_counter);
    } else {
        sqlite3_reset(read_counter);
    }
    return result == SQLITE_OK ? run(commit) : result;
}

static int do_read_then_write(int n) {
    (void)n;
    int result = count_one_more();
    if (result != SQLITE_OK) {
        note(sqlite3_errmsg(database));
        if (!sqlite3_get_autocommit(database)) sqlite3_exec(database, "ROLLBACK", NULL, NULL, NULL);
    }
    return result;
}

static int do_prepared(int n) {
    sqlite3_bind_int(prepared, 1, writer);
    sqlite3_bind_int(prepared, 2, n);
    int result = run(prepared);
    if (result != SQLITE_OK) return result;
    id_sum += sqlite3_last_insert_rowid(database);
    return expect(sqlite3_changes(database) == 1, "wrong answer: changes");
}

static int do_select(int n) {
    int id = n % 1000 + 1;
    sqlite3_bind_int(prepared, 1, id);
    int result = sqlite3_step(prepared);
    sqlite3_int64 found = result == SQLITE_ROW ? sqlite3_column_int64(prepared, 0) : -1;
    int reset = sqlite3_reset(prepared);
    if (reset != SQLITE_OK) return reset;
    return expect(found == id * 7, "wrong answer: item");
}

int main(int count, char **words) {
    if (count != 5) return 2;
    double seconds = atof(words[2]);
    const char *job = words[3];
    writer = atoi(words[4]);
    if (sqlite3_open(words[1], &database) != SQLITE_OK) return 1;
    sqlite3_busy_timeout(database, 5000);
    if (sqlite3_exec(database, "PRAGMA synchronous=FULL", NULL, NULL, NULL) != SQLITE_OK) return 1;

    int (*work)(int) = NULL;
    if (!strcmp(job, "insert")) {
        work = do_insert;
    } else if (!strcmp(job, "read-then-write")) {
        work = do_read_then_write;
        begin = prepare("BEGIN");
        commit = prepare("COMMIT");
        read_counter = prepare("SELECT n FROM counter WHERE id = 1");
        write_counter = prepare("UPDATE counter SET n = ? WHERE id = 1");
    } else if (!strcmp(job, "prepared")) {
        work = do_prepared;
        prepared = prepare("INSERT INTO event (writer, n) VALUES (?, ?)");
    } else if (!strcmp(job, "select")) {
        work = do_select;
        prepared = prepare("SELECT n FROM item WHERE id = ?");
    } else {
        return 2;
    }

    puts("ready");
    fflush(stdout);
    getchar();
    int done = 0, errors = 0, n = 0;
    double wait = 0, began = now_seconds(), now = began;
    char first_error[200] = "";
    while (now - began < seconds) {
        *message = 0;
        if (work(n++) == SQLITE_OK) {
            done++;
        } else if (errors++ == 0) {
            snprintf(first_error, sizeof first_error, "%s", *message ? message : sqlite3_errmsg(database));
        }
        double before = now;
        now = now_seconds();
        if (now - before > wait) wait = now - before;
    }
    for (char *quote = first_error; (quote = strchr(quote, '"')) != NULL;) *quote = '\'';
    printf("{\"done\": %d, \"errors\": %d, \"first_error\": \"%s\", \"wait_ms_max\": %.3f, "
           "\"seconds\": %.3f, \"id_sum\": %lld, \"sqlite\": \"%s\"}\n",
           done, errors, first_error, wait * 1000, now - began, (long long)id_sum, sqlite3_libversion());
    return 0;
}
