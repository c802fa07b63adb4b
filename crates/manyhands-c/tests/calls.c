// What one program may do with one connection: every kind of value, statements that outlive their connection's close, callbacks
// that use their own connection, texts in UTF-16.
#include "story.h"
#include <stdint.h>

// A leader may have executed an INSERT, and sent its row: every function shows it as SQLite shows a row of its own.
static void a_returned_row_is_shown_by_every_function(sqlite3 *db) {
    run(db, "CREATE TABLE v (id INTEGER PRIMARY KEY, a, b, c, d)");
    sqlite3_stmt *insert;
    OK(db, sqlite3_prepare_v2(db, "INSERT INTO v (a, b, c, d) VALUES (?, ?, ?, ?) RETURNING id, a, b, c, d", -1, &insert, 0));
    OK(db, sqlite3_bind_double(insert, 1, 2.5));
    OK(db, sqlite3_bind_text(insert, 2, "h\xc3\xa9", -1, SQLITE_TRANSIENT));
    OK(db, sqlite3_bind_blob(insert, 3, "\0\1\2", 3, SQLITE_STATIC));
    OK(db, sqlite3_bind_null(insert, 4));
    CHECK(sqlite3_data_count(insert) == 0);
    CHECK_CODE(db, SQLITE_ROW, sqlite3_step(insert));
    CHECK(sqlite3_data_count(insert) == 5);
    CHECK(sqlite3_column_type(insert, 0) == SQLITE_INTEGER && sqlite3_column_int64(insert, 0) == 1);
    CHECK(sqlite3_column_type(insert, 1) == SQLITE_FLOAT && sqlite3_column_double(insert, 1) == 2.5);
    CHECK(strcmp((const char *)sqlite3_column_text(insert, 1), "2.5") == 0);
    CHECK(strcmp((const char *)sqlite3_column_text(insert, 2), "h\xc3\xa9") == 0 && sqlite3_column_bytes(insert, 2) == 3);
    CHECK(sqlite3_column_bytes16(insert, 2) == 4 && ((const uint16_t *)sqlite3_column_text16(insert, 2))[1] == 0xe9);
    CHECK(sqlite3_column_bytes(insert, 3) == 3 && memcmp(sqlite3_column_blob(insert, 3), "\0\1\2", 3) == 0);
    CHECK(sqlite3_column_type(insert, 4) == SQLITE_NULL && sqlite3_column_text(insert, 4) == 0);
    CHECK(sqlite3_value_type(sqlite3_column_value(insert, 1)) == SQLITE_FLOAT);
    CHECK(strcmp(sqlite3_column_name(insert, 4), "d") == 0 && strcmp(sqlite3_column_table_name(insert, 0), "v") == 0);
    CHECK_CODE(db, SQLITE_DONE, sqlite3_step(insert));
    CHECK(sqlite3_changes(db) == 1 && sqlite3_last_insert_rowid(db) == 1);
    OK(db, sqlite3_finalize(insert));
}

static void an_error_is_told_again_by_reset(sqlite3 *db) {
    run(db, "CREATE TABLE u (k UNIQUE); INSERT INTO u VALUES (1)");
    sqlite3_stmt *insert;
    OK(db, sqlite3_prepare_v2(db, "INSERT INTO u VALUES (1)", -1, &insert, 0));
    CHECK_CODE(db, SQLITE_CONSTRAINT, sqlite3_step(insert));
    CHECK(sqlite3_extended_errcode(db) == SQLITE_CONSTRAINT_UNIQUE);
    run(db, "SELECT 1");
    CHECK_CODE(db, SQLITE_CONSTRAINT, sqlite3_reset(insert));
    CHECK(strcmp(sqlite3_errmsg(db), "UNIQUE constraint failed: u.k") == 0);
    OK(db, sqlite3_reset(insert));
    OK(db, sqlite3_finalize(insert));
    CHECK_CODE(db, SQLITE_ERROR, sqlite3_prepare_v2(db, "SELECT 1, SELEC", -1, &insert, 0));
    CHECK(insert == 0 && sqlite3_error_offset(db) == 10);
}

static void values_are_bound_before_the_first_step(sqlite3 *db) {
    sqlite3_stmt *select;
    OK(db, sqlite3_prepare_v2(db, "SELECT ?1, :name", -1, &select, 0));
    CHECK(sqlite3_bind_parameter_count(select) == 2 && sqlite3_bind_parameter_index(select, ":name") == 2);
    CHECK_CODE(db, SQLITE_RANGE, sqlite3_bind_int(select, 3, 1));
    OK(db, sqlite3_bind_int(select, 1, 7));
    CHECK_CODE(db, SQLITE_ROW, sqlite3_step(select));
    CHECK_CODE(db, SQLITE_MISUSE, sqlite3_bind_int(select, 1, 8));
    OK(db, sqlite3_reset(select));
    char *expanded = sqlite3_expanded_sql(select);
    CHECK(strcmp(expanded, "SELECT 7, NULL") == 0);
    sqlite3_free(expanded);
    OK(db, sqlite3_finalize(select));
    CHECK(sqlite3_step(0) == SQLITE_MISUSE && sqlite3_finalize(0) == SQLITE_OK && sqlite3_reset(0) == SQLITE_OK);
}

static int destroyed;
static void destroy(void *value) {
    (void)value;
    destroyed++;
}

// The engine binds the value again, and elsewhere: the program's memory must stay as long as it is bound.
static void a_bound_value_is_destroyed_once_when_it_is_bound_no_longer(sqlite3 *db) {
    static char text[] = "text";
    sqlite3_stmt *insert;
    run(db, "CREATE TABLE d (t)");
    OK(db, sqlite3_prepare_v2(db, "INSERT INTO d VALUES (?)", -1, &insert, 0));
    OK(db, sqlite3_bind_text(insert, 1, text, 4, destroy));
    for (int round = 0; round < 3; round++) {
        CHECK_CODE(db, SQLITE_DONE, sqlite3_step(insert));
        OK(db, sqlite3_reset(insert));
    }
    CHECK(destroyed == 0);
    OK(db, sqlite3_bind_null(insert, 1));
    CHECK(destroyed == 1);
    CHECK_CODE(db, SQLITE_RANGE, sqlite3_bind_text(insert, 2, text, 4, destroy));
    CHECK(destroyed == 2);
    OK(db, sqlite3_finalize(insert));
    CHECK(number(db, "SELECT count(*) FROM d WHERE t = 'text'") == 3);
}

static void counts_again(sqlite3_context *context, int count, sqlite3_value **values) {
    (void)count, (void)values;
    sqlite3 *db = sqlite3_context_db_handle(context);
    // In the middle of a statement of this connection.
    run(db, "INSERT INTO nested VALUES (1)");
    sqlite3_result_int64(context, number(db, "SELECT count(*) FROM nested"));
}

static void a_callback_uses_its_own_connection(sqlite3 *db) {
    run(db, "CREATE TABLE nested (a); CREATE TABLE seen (n)");
    OK(db, sqlite3_create_function(db, "counts", 0, SQLITE_UTF8, 0, counts_again, 0, 0));
    run(db, "BEGIN; INSERT INTO seen VALUES (counts()); INSERT INTO seen SELECT counts(); COMMIT");
    CHECK(number(db, "SELECT group_concat(n, '') FROM seen") == 12);
    CHECK(number(db, "SELECT count(*) FROM nested") == 2);
    run(db, "INSERT INTO seen VALUES (counts())");
    CHECK(number(db, "SELECT max(n) FROM seen") == 3);
}

static int order[8], heard;
static void hear_update(void *data, int kind, const char *schema, const char *table, sqlite3_int64 rowid) {
    (void)data, (void)schema, (void)table, (void)rowid;
    order[heard++ % 8] = kind;
}
static int hear_commit(void *refuses) {
    order[heard++ % 8] = 1;
    return *(int *)refuses;
}
static void hear_rollback(void *data) {
    (void)data;
    order[heard++ % 8] = 2;
}

static void each_event_is_told_once_and_in_order(void) {
    int refuses = 0;
    sqlite3 *db = open_app();
    run(db, "CREATE TABLE h (a)");
    sqlite3_update_hook(db, hear_update, 0);
    sqlite3_commit_hook(db, hear_commit, &refuses);
    sqlite3_rollback_hook(db, hear_rollback, 0);
    heard = 0;
    run(db, "INSERT INTO h VALUES (1)");
    CHECK(heard == 2 && order[0] == SQLITE_INSERT && order[1] == 1);
    heard = 0;
    run(db, "BEGIN; SELECT * FROM h; UPDATE h SET a = 2; COMMIT");
    CHECK(heard == 2 && order[0] == SQLITE_UPDATE && order[1] == 1);
    heard = 0, refuses = 1;
    CHECK_CODE(db, SQLITE_CONSTRAINT, sqlite3_exec(db, "DELETE FROM h WHERE a = 2", 0, 0, 0));
    CHECK(heard == 3 && order[0] == SQLITE_DELETE && order[1] == 1 && order[2] == 2);
    CHECK(sqlite3_commit_hook(db, 0, 0) == &refuses);
    CHECK(number(db, "SELECT count(*) FROM h") == 1);
    OK(db, sqlite3_close(db));
}

static void a_connection_is_closed_when_its_statements_are(void) {
    sqlite3_stmt *one, *two;
    sqlite3 *db = open_app();
    OK(db, sqlite3_prepare_v2(db, "SELECT 1", -1, &one, 0));
    OK(db, sqlite3_prepare_v2(db, "SELECT 2", -1, &two, 0));
    CHECK(sqlite3_next_stmt(db, 0) == two && sqlite3_next_stmt(db, two) == one && sqlite3_next_stmt(db, one) == 0);
    CHECK(sqlite3_db_handle(one) == db);
    CHECK_CODE(db, SQLITE_BUSY, sqlite3_close(db));
    CHECK_CODE(db, SQLITE_ROW, sqlite3_step(one));
    OK(db, sqlite3_close_v2(db));
    CHECK(sqlite3_step(two) == SQLITE_ROW && sqlite3_column_int(two, 0) == 2);
    CHECK(sqlite3_finalize(one) == SQLITE_OK && sqlite3_finalize(two) == SQLITE_OK);
}

static int stop_at_second(void *seen, int count, char **values, char **names) {
    CHECK(count == 1 && strcmp(names[0], "n") == 0);
    ((int *)seen)[0] += atoi(values[0]);
    return values[0][0] == '2';
}

static void exec_and_get_table_show_rows_as_texts(sqlite3 *db) {
    int seen = 0;
    char *message = 0, **table;
    int rows, columns;
    int code = sqlite3_exec(db, "SELECT column1 AS n FROM (VALUES (1), (2), (3))", stop_at_second, &seen, &message);
    CHECK(code == SQLITE_ABORT && seen == 3 && strcmp(message, "query aborted") == 0);
    sqlite3_free(message);
    OK(db, sqlite3_get_table(db, "SELECT 1 AS a, NULL AS b UNION ALL SELECT 'x', 2.5", &table, &rows, &columns, &message));
    CHECK(rows == 2 && columns == 2 && strcmp(table[1], "b") == 0 && table[3] == 0 && strcmp(table[5], "2.5") == 0);
    sqlite3_free_table(table);
    CHECK(sqlite3_exec(db, "SELECT 1; SELEC", 0, 0, &message) == SQLITE_ERROR && strstr(message, "syntax error"));
    sqlite3_free(message);
}

static void texts_may_be_utf16(sqlite3 *db) {
    uint16_t sql[64], value[] = {0x20ac, 0, 'x'};
    const char *ascii = "SELECT ?; SELECT 2";
    for (size_t at = 0; at <= strlen(ascii); at++) sql[at] = (unsigned char)ascii[at];
    sqlite3_stmt *select;
    const void *tail;
    OK(db, sqlite3_prepare16_v2(db, sql, -1, &select, &tail));
    CHECK((const uint16_t *)tail == sql + 9);
    OK(db, sqlite3_bind_text16(select, 1, value, 6, SQLITE_TRANSIENT));
    CHECK_CODE(db, SQLITE_ROW, sqlite3_step(select));
    CHECK(sqlite3_column_bytes(select, 0) == 5 && memcmp(sqlite3_column_text(select, 0), "\xe2\x82\xac\0x", 5) == 0);
    OK(db, sqlite3_finalize(select));
}

/* Half of a pair of surrogates, alone and before another unit: a write keeps what plain SQLite makes of them. */
static void half_of_a_surrogate_pair_is_kept(sqlite3 *db) {
    const uint16_t values[][2] = {{0xd83e, 0}, {0xd83e, 'x'}};
    const char *kept[] = {"EDA0BE", "F09FA1B8"};
    sqlite3_stmt *insert;
    run(db, "CREATE TABLE half (t)");
    OK(db, sqlite3_prepare_v2(db, "INSERT INTO half VALUES (?) RETURNING hex(t)", -1, &insert, 0));
    for (int at = 0; at < 2; at++) {
        OK(db, sqlite3_bind_text16(insert, 1, values[at], 2 * (at + 1), SQLITE_TRANSIENT));
        CHECK_CODE(db, SQLITE_ROW, sqlite3_step(insert));
        CHECK(strcmp((const char *)sqlite3_column_text(insert, 0), kept[at]) == 0);
        OK(db, sqlite3_reset(insert));
    }
    OK(db, sqlite3_finalize(insert));
}

static void blobs_backups_and_bytes(sqlite3 *db) {
    sqlite3_blob *blob;
    char read[4];
    run(db, "CREATE TABLE f (id INTEGER PRIMARY KEY, b); INSERT INTO f VALUES (1, zeroblob(10))");
    OK(db, sqlite3_blob_open(db, "main", "f", "b", 1, 1, &blob));
    OK(db, sqlite3_blob_write(blob, "abc", 3, 2));
    OK(db, sqlite3_blob_read(blob, read, 3, 2));
    CHECK_CODE(db, SQLITE_BUSY, sqlite3_close(db));
    OK(db, sqlite3_blob_close(blob));
    CHECK(number(db, "SELECT b = x'00006162630000000000' FROM f") == 1);
    sqlite3 *copy;
    OK(db, sqlite3_open("copy.db", &copy));
    sqlite3_backup *backup = sqlite3_backup_init(copy, "main", db, "main");
    CHECK(backup);
    while (sqlite3_backup_step(backup, 1) == SQLITE_OK) {}
    OK(copy, sqlite3_backup_finish(backup));
    CHECK(number(copy, "SELECT length(b) FROM f") == 10);
    run(copy, "INSERT INTO f VALUES (2, 'more')");
    OK(copy, sqlite3_close(copy));
    sqlite3_int64 size;
    unsigned char *bytes = sqlite3_serialize(db, "main", &size, 0);
    CHECK(bytes && size > 4096 && memcmp(bytes, "SQLite format 3", 16) == 0);
    sqlite3 *memory;
    OK(db, sqlite3_open(":memory:", &memory));
    OK(memory, sqlite3_deserialize(memory, "main", bytes, size, size, SQLITE_DESERIALIZE_FREEONCLOSE));
    OK(memory, sqlite3_close(memory));
}

static int asked;

static int deny(void *unused, int what, const char *a, const char *b, const char *c, const char *d) {
    (void)unused, (void)what, (void)a, (void)b, (void)c, (void)d;
    asked++;
    return SQLITE_DENY;
}

// A new authorizer is asked about statements that were prepared before, when they are executed next.
static void an_authorizer_is_asked_about_what_is_prepared(sqlite3 *db) {
    static const char *const SQL[] = {
        "SAVEPOINT a", "BEGIN", "ROLLBACK TO a", "INSERT INTO auth VALUES (1)", "UPDATE auth SET a = 2", "SELECT * FROM auth", "PRAGMA cache_size=7",
    };
    enum { COUNT = sizeof SQL / sizeof *SQL };
    sqlite3_stmt *statements[COUNT];
    run(db, "CREATE TABLE auth (a)");
    for (int i = 0; i < COUNT; i++) OK(db, sqlite3_prepare_v2(db, SQL[i], -1, &statements[i], 0));
    OK(db, sqlite3_set_authorizer(db, deny, 0));
    for (int i = 0; i < COUNT; i++) {
        asked = 0;
        CHECK_CODE(db, SQLITE_AUTH, sqlite3_step(statements[i]));
        CHECK(asked > 0);
        CHECK_CODE(db, SQLITE_AUTH, sqlite3_reset(statements[i]));
    }
    OK(db, sqlite3_set_authorizer(db, 0, 0));
    CHECK_CODE(db, SQLITE_DONE, sqlite3_step(statements[3]));
    CHECK_CODE(db, SQLITE_ROW, sqlite3_step(statements[5]));
    for (int i = 0; i < COUNT; i++) OK(db, sqlite3_finalize(statements[i]));
    run(db, "DROP TABLE auth");
}

// As docs/languages.md says: memory is counted for each connection, and not for the process.
static void memory_is_told_of_a_connection(sqlite3 *db) {
    int now = -1, most = -1;
    OK(db, sqlite3_status(SQLITE_STATUS_MEMORY_USED, &now, &most, 0));
    CHECK(now == 0 && most == 0 && sqlite3_memory_used() == 0 && sqlite3_memory_highwater(0) == 0);
    OK(db, sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_USED, &now, &most, 0));
    CHECK(now > 0);
}

int main(void) {
    sqlite3 *db = open_app();
    a_returned_row_is_shown_by_every_function(db);
    an_error_is_told_again_by_reset(db);
    values_are_bound_before_the_first_step(db);
    a_bound_value_is_destroyed_once_when_it_is_bound_no_longer(db);
    a_callback_uses_its_own_connection(db);
    exec_and_get_table_show_rows_as_texts(db);
    texts_may_be_utf16(db);
    half_of_a_surrogate_pair_is_kept(db);
    blobs_backups_and_bytes(db);
    an_authorizer_is_asked_about_what_is_prepared(db);
    memory_is_told_of_a_connection(db);
    OK(db, sqlite3_close(db));
    each_event_is_told_once_and_in_order();
    a_connection_is_closed_when_its_statements_are();
    return 0;
}
