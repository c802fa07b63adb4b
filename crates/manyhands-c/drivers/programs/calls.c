/* What one call takes: functions that drivers call for each value or statement, and that do next to nothing. The library is whichever is
 * preloaded. Prints one JSON object, with nanoseconds for each call: the least of several runs, since nothing but others makes one longer. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 200000, RUNS = 25 };

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

#define MEASURE(name, call) do { \
    double least = 1e18; \
    for (int run = 0; run < RUNS; run++) { \
        double began = now_ns(); \
        for (int n = 0; n < CALLS; n++) { call; } \
        double each = (now_ns() - began) / CALLS; \
        if (each < least) least = each; \
    } \
    printf("%s\"%s\": %.2f", first ? "" : ", ", name, least); \
    first = 0; \
} while (0)

static sqlite3_stmt *prepare(sqlite3 *database, const char *sql) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(database));
        exit(1);
    }
    return statement;
}

int main(int count, char **words) {
    sqlite3 *database;
    int first = 1;
    if (count != 2 || sqlite3_open(words[1], &database) != SQLITE_OK) return 1;
    if (sqlite3_exec(database, "UPDATE counter SET n = n + 1", NULL, NULL, NULL) != SQLITE_OK) return 1;
    sqlite3_stmt *insert = prepare(database, "INSERT INTO event (writer, n) VALUES (?, ?)");
    sqlite3_stmt *shows = prepare(database, "SELECT n, 'a text' FROM item WHERE id = 1");
    if (sqlite3_step(shows) != SQLITE_ROW) return 1;
    printf("{");
    MEASURE("libversion_number", sqlite3_libversion_number());
    MEASURE("errcode", sqlite3_errcode(database));
    MEASURE("errmsg", sqlite3_errmsg(database));
    MEASURE("get_autocommit", sqlite3_get_autocommit(database));
    MEASURE("changes", sqlite3_changes(database));
    MEASURE("total_changes", sqlite3_total_changes(database));
    MEASURE("last_insert_rowid", sqlite3_last_insert_rowid(database));
    MEASURE("bind_int64", sqlite3_bind_int64(insert, 1, n));
    MEASURE("bind_double", sqlite3_bind_double(insert, 1, 0.5));
    MEASURE("bind_text", sqlite3_bind_text(insert, 2, "ten bytes.", 10, SQLITE_STATIC));
    MEASURE("bind_null", sqlite3_bind_null(insert, 2));
    MEASURE("bind_parameter_count", sqlite3_bind_parameter_count(insert));
    MEASURE("clear_bindings", sqlite3_clear_bindings(insert));
    MEASURE("reset", sqlite3_reset(insert));
    MEASURE("column_count", sqlite3_column_count(shows));
    MEASURE("column_type", sqlite3_column_type(shows, 0));
    MEASURE("column_int64", sqlite3_column_int64(shows, 0));
    MEASURE("column_text", sqlite3_column_text(shows, 1));
    MEASURE("column_bytes", sqlite3_column_bytes(shows, 1));
    MEASURE("column_name", sqlite3_column_name(shows, 0));
    MEASURE("data_count", sqlite3_data_count(shows));
    MEASURE("stmt_readonly", sqlite3_stmt_readonly(shows));
    MEASURE("stmt_busy", sqlite3_stmt_busy(shows));
    MEASURE("db_handle", sqlite3_db_handle(shows));
    MEASURE("sql", sqlite3_sql(shows));
    printf("}\n");
    sqlite3_finalize(insert);
    sqlite3_finalize(shows);
    return sqlite3_close(database);
}
