// Transactions that append to lists and read them, as black_box/script.rs has them, and the log of black_box/history.rs: a length of four
// bytes, then the record as postcard writes it.
//
// Even threads have SQLite's own transactions, which the library's mode `auto` gives; odd ones write without the turn.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "worker.h"

enum { KEYS = 6, USED_NS = 25000000, STEPS_MAX = 4, CHECKPOINT_EVERY = 400 };
// As black_box/history.rs numbers them.
enum record { RECORD_BEGIN, RECORD_END };
enum ending { COMMITTED, FAILED_END, UNKNOWN };
enum way { REQUEST, DEFERRED, TURN };

struct step { bool appends; int64_t key, item; };

struct log {
    FILE *file;
    uint8_t *bytes;
    size_t length, room;
};

static void put(struct log *log, uint8_t byte) {
    if (log->length == log->room) log->bytes = realloc(log->bytes, log->room = 2 * log->room + 64);
    log->bytes[log->length++] = byte;
}

static void put_number(struct log *log, uint64_t number) {
    for (; number >= 0x80; number >>= 7) put(log, (uint8_t)number | 0x80);
    put(log, (uint8_t)number);
}

static void put_signed(struct log *log, int64_t number) {
    put_number(log, (uint64_t)number << 1 ^ (uint64_t)(number >> 63));
}

// What was put is a record. It is the kernel's before anything else happens.
static void end_record(struct log *log) {
    uint8_t length[4];
    for (int i = 0; i < 4; i++) length[i] = (uint8_t)(log->length >> 8 * i);
    fwrite(length, 1, sizeof length, log->file);
    fwrite(log->bytes, 1, log->length, log->file);
    if (fflush(log->file) != 0) give_up(0, "write the log");
    log->length = 0;
}

static const char *sql_of(struct step step) {
    if (step.appends) {
        return step.key % 2 == 0
            ? "INSERT INTO text VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET items = items || ' ' || excluded.items"
            : "INSERT INTO element SELECT ?1, coalesce(max(n), 0) + 1, ?2 FROM element WHERE k = ?1";
    }
    return step.key % 2 == 0 ? "SELECT items FROM text WHERE k = ?1" : "SELECT item FROM element WHERE k = ?1 ORDER BY n";
}

// The items of a read: how many, and which.
struct items { size_t count, room; int64_t *items; };

static void add(struct items *items, int64_t item) {
    if (items->count == items->room) items->items = realloc(items->items, (items->room = 2 * items->room + 16) * sizeof(int64_t));
    items->items[items->count++] = item;
}

static int perform(sqlite3 *db, struct step step, struct items *shown) {
    sqlite3_stmt *statement;
    int code = sqlite3_prepare_v2(db, sql_of(step), -1, &statement, 0);
    if (code != SQLITE_OK) return code;
    sqlite3_bind_int64(statement, 1, step.key);
    if (step.appends) sqlite3_bind_int64(statement, 2, step.item);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (sqlite3_column_type(statement, 0) == SQLITE_INTEGER) {
            add(shown, sqlite3_column_int64(statement, 0));
            continue;
        }
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        for (char *end; text && *text; text = end) {
            long long item = strtoll(text, &end, 10);
            if (end == text) {
                // An item that nobody appended.
                add(shown, -1);
                break;
            }
            add(shown, item);
        }
    }
    int again = sqlite3_finalize(statement);
    return code == SQLITE_DONE ? again : code;
}

static int transaction(sqlite3 *db, enum way way, const struct step *steps, int count, struct items *shown) {
    static const char *const BEGIN[] = { [DEFERRED] = "BEGIN", [TURN] = "BEGIN IMMEDIATE" };
    if (way == REQUEST) return perform(db, steps[0], &shown[0]);
    int code = sqlite3_exec(db, BEGIN[way], 0, 0, 0);
    for (int i = 0; i < count && code == SQLITE_OK; i++) code = perform(db, steps[i], &shown[i]);
    return code == SQLITE_OK ? sqlite3_exec(db, "COMMIT", 0, 0, 0) : code;
}

static int draw_steps(uint64_t *state, int64_t *item, struct step *steps) {
    uint64_t first = now_ns() / USED_NS * KEYS;
    int count = 1 + (int)(next_dice(state) % STEPS_MAX);
    for (int i = 0; i < count; i++) {
        int64_t key = (int64_t)(first + next_dice(state) % KEYS);
        bool appends = next_dice(state) % 5 < 2;
        steps[i] = (struct step){ appends, key, appends ? ++*item : 0 };
    }
    return count;
}

static void log_begin(struct log *log, const struct step *steps, int count) {
    put_number(log, RECORD_BEGIN);
    put_number(log, now_ns());
    put_number(log, (uint64_t)count);
    for (int i = 0; i < count; i++) {
        put_number(log, steps[i].appends ? 0 : 1);
        put_signed(log, steps[i].key);
        if (steps[i].appends) put_signed(log, steps[i].item);
    }
    end_record(log);
}

static void log_end(struct log *log, enum ending ending, const struct step *steps, int count, const struct items *shown) {
    put_number(log, RECORD_END);
    put_number(log, now_ns());
    put_number(log, ending);
    uint64_t reads = 0;
    for (int i = 0; i < count; i++) reads += !steps[i].appends;
    put_number(log, ending == COMMITTED ? reads : 0);
    for (int i = 0; i < count && ending == COMMITTED; i++) {
        if (steps[i].appends) continue;
        put_number(log, shown[i].count);
        for (size_t item = 0; item < shown[i].count; item++) put_signed(log, shown[i].items[item]);
    }
    end_record(log);
}

void play_lists(const struct job *job, long long thread) {
    long long player = job->number * 1000 + thread;
    int64_t item = (player + 1) << 32;
    uint64_t state = dice((struct operation){ player, 0 }, job->seed, 0);
    const char *folder_end = strrchr(job->database, '/');
    char *path = sqlite3_mprintf("%.*slog-%lld-%lld", (int)(folder_end + 1 - job->database), job->database, job->number, thread);
    struct log log = { .file = fopen(path, "w") };
    sqlite3_free(path);
    if (!log.file) give_up(0, "create the log");
    sqlite3 *db = open_database(job, thread % 2 == 0 ? "auto" : "optimistic");
    struct step steps[STEPS_MAX];
    struct items shown[STEPS_MAX] = { 0 };
    for (long long number = 0; number < job->count && !is_stopped(); number++) {
        // Whatever it answers: somebody else may be at it.
        if (next_dice(&state) % CHECKPOINT_EVERY == 0) sqlite3_wal_checkpoint_v2(db, 0, SQLITE_CHECKPOINT_PASSIVE, 0, 0);
        int count = draw_steps(&state, &item, steps);
        uint64_t chosen = next_dice(&state) % 10;
        enum way way = count == 1 && chosen < 6 ? REQUEST : chosen < 8 ? DEFERRED : TURN;
        for (int i = 0; i < count; i++) shown[i].count = 0;
        log_begin(&log, steps, count);
        int code = transaction(db, way, steps, count, shown);
        int extended = sqlite3_extended_errcode(db);
        bool unknown = code != SQLITE_OK && strstr(sqlite3_errmsg(db), "whether the write was committed");
        bool conflict = way == DEFERRED && extended == SQLITE_BUSY_SNAPSHOT;
        if (code != SQLITE_OK && !unknown && !conflict) give_up(db, "a transaction");
        if (!sqlite3_get_autocommit(db) && sqlite3_exec(db, "ROLLBACK", 0, 0, 0) != SQLITE_OK) give_up(db, "ROLLBACK");
        log_end(&log, code == SQLITE_OK ? COMMITTED : unknown ? UNKNOWN : FAILED_END, steps, count, shown);
    }
    if (sqlite3_close(db) != SQLITE_OK) give_up(db, "close");
    fclose(log.file);
}
