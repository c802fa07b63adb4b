// The name under which .NET asks for SQLite: the functions that SQLitePCLRaw's provider e_sqlite3 looks up by name, and a program that uses those
// which Microsoft.Data.Sqlite calls, by no other way than that.
#include "story.h"
#include <dlfcn.h>

static const char *const NAMES[] = {
    "aggregate_context", "backup_finish", "backup_init", "backup_pagecount", "backup_remaining", "backup_step", "bind_blob", "bind_double",
    "bind_int", "bind_int64", "bind_null", "bind_parameter_count", "bind_parameter_index", "bind_parameter_name", "bind_text", "bind_text16",
    "bind_zeroblob", "blob_bytes", "blob_close", "blob_open", "blob_read", "blob_reopen", "blob_write", "busy_timeout", "changes", "clear_bindings",
    "close", "close_v2", "column_blob", "column_bytes", "column_count", "column_database_name", "column_decltype", "column_double", "column_int",
    "column_int64", "column_name", "column_origin_name", "column_table_name", "column_text", "column_type", "column_value", "commit_hook",
    "compileoption_get", "compileoption_used", "complete", "config", "create_collation_v2", "create_function_v2", "data_count", "db_config",
    "db_filename", "db_handle", "db_mutex", "db_readonly", "db_release_memory", "db_status", "deserialize", "enable_load_extension",
    "enable_shared_cache", "errcode", "errmsg", "error_offset", "errstr", "exec", "extended_errcode", "extended_result_codes", "file_control",
    "finalize", "free", "free_table", "get_autocommit", "get_auxdata", "hard_heap_limit64", "initialize", "interrupt", "keyword_count",
    "keyword_name", "last_insert_rowid", "libversion", "libversion_number", "limit", "load_extension", "malloc", "malloc64", "memory_highwater",
    "memory_used", "mutex_enter", "mutex_leave", "next_stmt", "open", "open_v2", "preupdate_blobwrite", "prepare_v2", "prepare_v3", "profile",
    "progress_handler", "reset", "result_blob", "result_double", "result_error", "result_error_code", "result_error_nomem", "result_error_toobig",
    "result_int", "result_int64", "result_null", "result_subtype", "result_text", "result_zeroblob", "rollback_hook", "serialize",
    "set_authorizer", "set_auxdata", "set_last_insert_rowid", "shutdown", "snapshot_cmp", "snapshot_free", "snapshot_get", "snapshot_open",
    "snapshot_recover", "soft_heap_limit64", "sourceid", "sql", "status", "step", "stmt_busy", "stmt_isexplain", "stmt_readonly", "stmt_status",
    "stricmp", "strnicmp", "table_column_metadata", "threadsafe", "total_changes", "trace", "trace_v2", "update_hook", "user_data",
    "value_blob", "value_bytes", "value_double", "value_int", "value_int64", "value_subtype", "value_text", "value_type", "vfs_find",
    "wal_autocheckpoint", "wal_checkpoint", "wal_checkpoint_v2", "wal_hook",
};

static void *library;

static void *named(const char *name) {
    char full[100];
    snprintf(full, sizeof full, "sqlite3_%s", name);
    void *found = dlsym(library, full);
    if (!found) fprintf(stderr, "%s is not there\n", full);
    CHECK(found);
    return found;
}

// Declared as sqlite3.h has it, and called by the address that the library gives.
#define CALL(name, ...) (((__typeof__(&sqlite3_##name))named(#name))(__VA_ARGS__))

static void twice(sqlite3_context *context, int count, sqlite3_value **values) {
    CHECK(count == 1 && CALL(user_data, context) == (void *)library);
    CALL(result_int64, context, 2 * CALL(value_int64, values[0]));
}

static int backwards(void *data, int n, const void *a, int m, const void *b) {
    (void)data;
    int least = n < m ? n : m, order = memcmp(b, a, (size_t)least);
    return order ? order : m - n;
}

int main(void) {
    sqlite3 *db;
    sqlite3_stmt *statement;
    library = dlopen("libe_sqlite3.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) named(NAMES[i]);
    CHECK(CALL(open_v2, "app.db", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, 0) == SQLITE_OK);
    CHECK(CALL(extended_result_codes, db, 1) == SQLITE_OK);
    CHECK(CALL(busy_timeout, db, 30000) == SQLITE_OK);
    CHECK(CALL(create_collation_v2, db, "BACKWARDS", SQLITE_UTF8, 0, backwards, 0) == SQLITE_OK);
    CHECK(CALL(exec, db, "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT UNIQUE, bytes BLOB)", 0, 0, 0) == SQLITE_OK);
    const char *tail, *sql = "INSERT INTO note (text, bytes) VALUES ($text, $bytes) RETURNING id; SELECT 1";
    CHECK(CALL(prepare_v2, db, sql, -1, &statement, &tail) == SQLITE_OK && strcmp(tail, " SELECT 1") == 0);
    CHECK(CALL(bind_parameter_count, statement) == 2 && CALL(bind_parameter_index, statement, "$bytes") == 2);
    CHECK(CALL(bind_text, statement, 1, "one", 3, SQLITE_TRANSIENT) == SQLITE_OK);
    CHECK(CALL(bind_blob, statement, 2, "\1\2\3", 3, SQLITE_TRANSIENT) == SQLITE_OK);
    CHECK(CALL(step, statement) == SQLITE_ROW && CALL(column_int64, statement, 0) == 1);
    CHECK(CALL(step, statement) == SQLITE_DONE);
    CHECK(CALL(changes, db) == 1 && CALL(last_insert_rowid, db) == 1 && !CALL(stmt_readonly, statement));
    CHECK(CALL(reset, statement) == SQLITE_OK);
    // The same text once more: the extended code, and the message.
    CHECK(CALL(step, statement) == SQLITE_CONSTRAINT_UNIQUE);
    CHECK(strcmp(CALL(errmsg, db), "UNIQUE constraint failed: note.text") == 0 && CALL(extended_errcode, db) == SQLITE_CONSTRAINT_UNIQUE);
    CHECK(CALL(finalize, statement) == SQLITE_CONSTRAINT_UNIQUE);
    // A transaction with a savepoint, as the provider makes them.
    CHECK(CALL(exec, db, "BEGIN IMMEDIATE; SAVEPOINT s; INSERT INTO note (text) VALUES ('lost'); ROLLBACK TO s", 0, 0, 0) == SQLITE_OK);
    CHECK(CALL(get_autocommit, db) == 0);
    CHECK(CALL(exec, db, "INSERT INTO note (text) VALUES ('two'); COMMIT", 0, 0, 0) == SQLITE_OK && CALL(get_autocommit, db) == 1);
    CHECK(CALL(create_function_v2, db, "twice", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, library, twice, 0, 0, 0) == SQLITE_OK);
    CHECK(CALL(prepare_v2, db, "SELECT twice(id), text AS t, bytes FROM note ORDER BY text COLLATE BACKWARDS", -1, &statement, 0) == SQLITE_OK);
    CHECK(CALL(step, statement) == SQLITE_ROW && CALL(column_int64, statement, 0) == 4);
    CHECK(CALL(column_type, statement, 2) == SQLITE_NULL && strcmp(CALL(column_name, statement, 1), "t") == 0);
    CHECK(strcmp(CALL(column_origin_name, statement, 1), "text") == 0 && strcmp(CALL(column_decltype, statement, 1), "TEXT") == 0);
    CHECK(CALL(step, statement) == SQLITE_ROW && CALL(column_bytes, statement, 2) == 3);
    CHECK(memcmp(CALL(column_blob, statement, 2), "\1\2\3", 3) == 0 && CALL(step, statement) == SQLITE_DONE);
    CHECK(CALL(finalize, statement) == SQLITE_OK);
    const char *type;
    int key;
    CHECK(CALL(table_column_metadata, db, 0, "note", "id", &type, 0, 0, &key, 0) == SQLITE_OK && key && strcmp(type, "INTEGER") == 0);
    sqlite3_blob *blob;
    char bytes[3];
    CHECK(CALL(blob_open, db, "main", "note", "bytes", 1, 1, &blob) == SQLITE_OK && CALL(blob_bytes, blob) == 3);
    CHECK(CALL(blob_write, blob, "\7", 1, 2) == SQLITE_OK && CALL(blob_read, blob, bytes, 3, 0) == SQLITE_OK && bytes[2] == 7);
    CHECK(CALL(blob_close, blob) == SQLITE_OK);
    sqlite3 *copy;
    CHECK(CALL(open, ":memory:", &copy) == SQLITE_OK);
    sqlite3_backup *backup = CALL(backup_init, copy, "main", db, "main");
    CHECK(backup && CALL(backup_step, backup, -1) == SQLITE_DONE && CALL(backup_finish, backup) == SQLITE_OK);
    // Only Manyhands makes it.
    CHECK(access("app.db-hands", F_OK) == 0);
    CHECK(CALL(close_v2, copy) == SQLITE_OK && CALL(close_v2, db) == SQLITE_OK);
    printf("e_sqlite3: %zu functions by their names\n", sizeof NAMES / sizeof *NAMES);
    return 0;
}
