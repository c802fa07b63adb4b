// What every story needs: a check that says where it failed, and a database in an empty directory.
#ifndef STORY_H
#define STORY_H
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { \
    fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); exit(1); } } while (0)
#define CHECK_CODE(db, wanted, call) do { int code_ = (call); if (code_ != (wanted)) { \
    fprintf(stderr, "%s:%d: %s: %d (%s), and not %d\n", __FILE__, __LINE__, #call, code_, sqlite3_errmsg(db), wanted); \
    exit(1); } } while (0)
#define OK(db, call) CHECK_CODE(db, SQLITE_OK, call)

static inline sqlite3 *open_app(void) {
    sqlite3 *db;
    int code = sqlite3_open("app.db", &db);
    CHECK_CODE(db, SQLITE_OK, code);
    return db;
}

static inline void run(sqlite3 *db, const char *sql) {
    CHECK_CODE(db, SQLITE_OK, sqlite3_exec(db, sql, 0, 0, 0));
}

static inline long long number(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement;
    OK(db, sqlite3_prepare_v2(db, sql, -1, &statement, 0));
    CHECK_CODE(db, SQLITE_ROW, sqlite3_step(statement));
    long long found = sqlite3_column_int64(statement, 0);
    OK(db, sqlite3_finalize(statement));
    return found;
}

static inline double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}
#endif
