// Operation after operation on one connection, as worker/hand.rs performs them: the same rows, by SQLite's C interface.
//
// Writers of odd numbers keep their statements; the others prepare each anew, as drivers without a cache do, and ask for the counts after
// each write.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "worker.h"

// How long a writer waits after an error before it goes on.
enum { PAUSE_US = 20000, TEXT_MAX = 300 };

static const char *const SQL[KEPT] = {
    [KEPT_INSERT] = "INSERT INTO entry VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [KEPT_INSERT_COUNT] = "INSERT INTO entry SELECT ?1, ?2, ?3, ?4, ?5, (SELECT n FROM counter WHERE id = ?6), NULL",
    [KEPT_COUNT] = "UPDATE counter SET n = n + 1 WHERE id = ?1 RETURNING n",
    [KEPT_READ] = "SELECT n FROM counter WHERE id = ?1",
    [KEPT_WRITE] = "UPDATE counter SET n = ?1 WHERE id = ?2",
    [KEPT_BEGIN] = "BEGIN",
    [KEPT_COMMIT] = "COMMIT",
};

void hand_open(struct hand *hand, const struct job *job, int64_t writer) {
    memset(hand, 0, sizeof *hand);
    hand->job = job;
    hand->last = (struct operation){ writer, 0 };
    hand->db = open_database(job, "auto");
}

void hand_close(struct hand *hand) {
    for (int kept = 0; kept < KEPT; kept++) sqlite3_finalize(hand->kept[kept]);
    if (sqlite3_close(hand->db) != SQLITE_OK) give_up(hand->db, "close");
}

static bool keeps(const struct hand *hand) {
    return hand->last.writer % 2 != 0;
}

// The statement, ready to be bound; null after an error.
static sqlite3_stmt *take(struct hand *hand, enum kept kept) {
    if (!hand->kept[kept]) {
        sqlite3_prepare_v3(hand->db, SQL[kept], -1, keeps(hand) ? SQLITE_PREPARE_PERSISTENT : 0, &hand->kept[kept], 0);
    }
    return hand->kept[kept];
}

// The statement's result code: of its last step, or of what came before it.
static int give_back(struct hand *hand, enum kept kept, int code) {
    sqlite3_stmt *statement = hand->kept[kept];
    if (keeps(hand)) {
        int again = sqlite3_reset(statement);
        sqlite3_clear_bindings(statement);
        return again != SQLITE_OK ? again : code;
    }
    hand->kept[kept] = 0;
    int again = sqlite3_finalize(statement);
    return again != SQLITE_OK ? again : code;
}

// Steps to the end. The number in the first column of the first row goes to `number`, where one is asked for.
static int step_all(struct hand *hand, enum kept kept, sqlite3_stmt *statement, int64_t *number) {
    int code, rows = 0;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (number && rows++ == 0) *number = sqlite3_column_int64(statement, 0);
    }
    if (code == SQLITE_DONE && number && rows != 1) say("wrong %d rows of %s", rows, SQL[kept]);
    return give_back(hand, kept, code == SQLITE_DONE ? SQLITE_OK : code);
}

// After a write of one row, as drivers ask.
static int check_count(struct hand *hand, const char *what) {
    long long changed = sqlite3_changes64(hand->db);
    if (!keeps(hand) && changed != 1) say("wrong %s has changed %lld rows", what, changed);
    return SQLITE_OK;
}

static int insert(struct hand *hand, struct operation operation, int64_t part, const int64_t *value, char *payload, int length) {
    sqlite3_stmt *statement = take(hand, KEPT_INSERT);
    if (!statement) return sqlite3_errcode(hand->db);
    uint64_t seed = hand->job->seed;
    sqlite3_bind_int64(statement, 1, operation.writer);
    sqlite3_bind_int64(statement, 2, operation.sequence);
    sqlite3_bind_int64(statement, 3, part);
    sqlite3_bind_int64(statement, 4, id_of(operation, seed, part, false));
    sqlite3_bind_int64(statement, 5, id_of(operation, seed, part, true));
    if (value) sqlite3_bind_int64(statement, 6, *value);
    else sqlite3_bind_null(statement, 6);
    if (payload) sqlite3_bind_text(statement, 7, payload, length, SQLITE_TRANSIENT);
    else sqlite3_bind_null(statement, 7);
    int code = step_all(hand, KEPT_INSERT, statement, 0);
    return code != SQLITE_OK ? code : check_count(hand, "an INSERT");
}

static int insert_count(struct hand *hand, struct operation operation, int64_t part, int64_t counter) {
    sqlite3_stmt *statement = take(hand, KEPT_INSERT_COUNT);
    if (!statement) return sqlite3_errcode(hand->db);
    uint64_t seed = hand->job->seed;
    sqlite3_bind_int64(statement, 1, operation.writer);
    sqlite3_bind_int64(statement, 2, operation.sequence);
    sqlite3_bind_int64(statement, 3, part);
    sqlite3_bind_int64(statement, 4, id_of(operation, seed, part, false));
    sqlite3_bind_int64(statement, 5, id_of(operation, seed, part, true));
    sqlite3_bind_int64(statement, 6, counter);
    return step_all(hand, KEPT_INSERT_COUNT, statement, 0);
}

static int with_number(struct hand *hand, enum kept kept, int64_t first, int64_t second, int64_t *shown) {
    sqlite3_stmt *statement = take(hand, kept);
    if (!statement) return sqlite3_errcode(hand->db);
    sqlite3_bind_int64(statement, 1, first);
    if (kept == KEPT_WRITE) sqlite3_bind_int64(statement, 2, second);
    return step_all(hand, kept, statement, shown);
}

static int by_itself(struct hand *hand, enum kept kept) {
    sqlite3_stmt *statement = take(hand, kept);
    return statement ? step_all(hand, kept, statement, 0) : sqlite3_errcode(hand->db);
}

static int run(struct hand *hand, const char *sql) {
    return sqlite3_exec(hand->db, sql, 0, 0, 0);
}

#define TRY(call) do { int code_ = (call); if (code_ != SQLITE_OK) return code_; } while (0)

static int pair(struct hand *hand, struct operation operation) {
    TRY(by_itself(hand, KEPT_BEGIN));
    TRY(insert(hand, operation, 0, 0, 0, 0));
    TRY(insert(hand, operation, 1, 0, 0, 0));
    return by_itself(hand, KEPT_COMMIT);
}

static int count(struct hand *hand, struct operation operation, int64_t *value) {
    TRY(by_itself(hand, KEPT_BEGIN));
    TRY(with_number(hand, KEPT_COUNT, 1, 0, value));
    TRY(insert_count(hand, operation, 0, 1));
    return by_itself(hand, KEPT_COMMIT);
}

// Reads a counter, writes it increased, and inserts two rows with its value.
static int read_and_write(
    struct hand *hand, struct operation operation, const char *begin, int64_t counter, int64_t *value, void (*meanwhile)(void)
) {
    TRY(run(hand, begin));
    TRY(with_number(hand, KEPT_READ, counter, 0, value));
    *value += 1;
    TRY(insert(hand, operation, 0, value, 0, 0));
    if (meanwhile) meanwhile();
    TRY(with_number(hand, KEPT_WRITE, *value, counter, 0));
    TRY(insert(hand, operation, 1, value, 0, 0));
    return by_itself(hand, KEPT_COMMIT);
}

static void roll_back(struct hand *hand) {
    if (!sqlite3_get_autocommit(hand->db)) run(hand, "ROLLBACK");
}

// The same, again after each conflict, as SQLite's documents tell programs.
static int again_after_conflicts(struct hand *hand, struct operation operation, int64_t *value) {
    for (;;) {
        int code = read_and_write(hand, operation, "BEGIN", 4, value, 0);
        if (code == SQLITE_OK || sqlite3_extended_errcode(hand->db) != SQLITE_BUSY_SNAPSHOT) return code;
        roll_back(hand);
    }
}

static int blind(struct hand *hand, struct operation operation) {
    TRY(by_itself(hand, KEPT_BEGIN));
    TRY(run(hand, "UPDATE counter SET n = n + 1 WHERE id = 5"));
    TRY(insert_count(hand, operation, 0, 5));
    TRY(insert_count(hand, operation, 1, 5));
    return by_itself(hand, KEPT_COMMIT);
}

static int large(struct hand *hand, struct operation operation) {
    uint64_t payload = dice(operation, hand->job->seed, -2);
    size_t length = 3000 + payload % 20000;
    char *text = malloc(length);
    memset(text, 'a' + (uint8_t)(payload >> 32) % 26, length);
    int code = insert(hand, operation, 0, 0, text, (int)length);
    free(text);
    return code;
}

static int schema(struct hand *hand, struct operation operation) {
    char sql[200];
    long long writer = operation.writer;
    TRY(run(hand, "BEGIN IMMEDIATE"));
    snprintf(sql, sizeof sql, "DROP TABLE IF EXISTS own_%lld", writer);
    TRY(run(hand, sql));
    snprintf(sql, sizeof sql, "CREATE TABLE own_%lld (sequence_%lld)", writer, (long long)operation.sequence);
    TRY(run(hand, sql));
    TRY(insert(hand, operation, 0, 0, 0, 0));
    return by_itself(hand, KEPT_COMMIT);
}

static int refused(struct hand *hand, struct operation operation, bool all) {
    char sql[100];
    snprintf(sql, sizeof sql, "INSERT %s INTO counter VALUES (1, %lld)", all ? "OR ROLLBACK" : "", (long long)operation.sequence);
    return run(hand, sql);
}

static int refused_pair(struct hand *hand, struct operation operation) {
    TRY(by_itself(hand, KEPT_BEGIN));
    TRY(insert(hand, operation, 0, 0, 0, 0));
    TRY(refused(hand, operation, false));
    return by_itself(hand, KEPT_COMMIT);
}

// Says what came of an operation: see worker.rs.
static void tell(struct hand *hand, struct operation operation, int code, const int64_t *value, uint64_t began_ns) {
    uint64_t now = now_ns();
    unsigned long long ns = now;
    long long writer = operation.writer, sequence = operation.sequence;
    if (code == SQLITE_OK) {
        if (value) say("ack %llu %lld %lld %lld", ns, writer, sequence, (long long)*value);
        else say("ack %llu %lld %lld -", ns, writer, sequence);
        return;
    }
    char text[TEXT_MAX + 1];
    snprintf(text, sizeof text, "%s", sqlite3_errmsg(hand->db));
    for (char *at = text; (at = strchr(at, '\n'));) *at = ' ';
    int extended = sqlite3_extended_errcode(hand->db);
    roll_back(hand);
    if ((code & 0xff) == SQLITE_CONSTRAINT) {
        say("refused %llu %lld %lld", ns, writer, sequence);
        return;
    }
    const char *what = strstr(text, "whether the write was committed") ? "unknown" : extended == SQLITE_BUSY ? "timeout" : "other";
    unsigned long long waited = (now - began_ns) / 1000000;
    say("err %llu %lld %lld %s %d %llu %s", ns, writer, sequence, what, code & 0xff, waited, text);
    usleep(PAUSE_US);
}

static void play(struct hand *hand, struct operation operation) {
    int64_t number = 0, *value = 0;
    int code = SQLITE_ERROR;
    uint64_t began_ns = now_ns();
    switch (kind_of(operation, hand->job->seed)) {
    case INSERT: code = insert(hand, operation, 0, 0, 0, 0); break;
    case PAIR: code = pair(hand, operation); break;
    case COUNT: code = count(hand, operation, value = &number); break;
    case BARE_COUNT: code = with_number(hand, KEPT_COUNT, 2, 0, value = &number); break;
    case IMMEDIATE: code = read_and_write(hand, operation, "BEGIN IMMEDIATE", 3, value = &number, 0); break;
    case OPTIMISTIC: code = again_after_conflicts(hand, operation, value = &number); break;
    case BLIND: code = blind(hand, operation); break;
    case LARGE: code = large(hand, operation); break;
    case SCHEMA: code = schema(hand, operation); break;
    case REFUSED: code = refused(hand, operation, operation.sequence % 2 != 0); break;
    case REFUSED_PAIR: code = refused_pair(hand, operation); break;
    }
    tell(hand, operation, code, value, began_ns);
}

static struct operation advance(struct hand *hand) {
    hand->last.sequence++;
    return hand->last;
}

static struct operation skip_to(struct hand *hand, enum kind kind) {
    while (kind_of(advance(hand), hand->job->seed) != kind) {}
    return hand->last;
}

void hand_next(struct hand *hand) {
    play(hand, advance(hand));
}

void hand_insert_next(struct hand *hand) {
    struct operation operation = advance(hand);
    uint64_t began_ns = now_ns();
    tell(hand, operation, insert(hand, operation, 0, 0, 0, 0), 0, began_ns);
}

void hand_immediate_now(struct hand *hand) {
    play(hand, skip_to(hand, IMMEDIATE));
}

static void hold_until_go(void) {
    say("holding");
    wait_for_go();
}

void hand_hold(struct hand *hand) {
    struct operation operation = skip_to(hand, IMMEDIATE);
    int64_t value = 0;
    uint64_t began_ns = now_ns();
    int code = read_and_write(hand, operation, "BEGIN IMMEDIATE", 3, &value, hold_until_go);
    tell(hand, operation, code, &value, began_ns);
}

static int pair_with(
    struct hand *hand, struct operation operation, const char *begin, bool after_first_write, void (*meanwhile)(void *), void *context
) {
    TRY(run(hand, begin));
    // Nothing that others write.
    TRY(run(hand, "SELECT n FROM counter WHERE id = 0"));
    if (!after_first_write) meanwhile(context);
    TRY(insert(hand, operation, 0, 0, 0, 0));
    if (after_first_write) meanwhile(context);
    TRY(insert(hand, operation, 1, 0, 0, 0));
    return by_itself(hand, KEPT_COMMIT);
}

void hand_pair_with(struct hand *hand, const char *begin, bool after_first_write, void (*meanwhile)(void *), void *context) {
    struct operation operation = skip_to(hand, PAIR);
    uint64_t began_ns = now_ns();
    tell(hand, operation, pair_with(hand, operation, begin, after_first_write, meanwhile, context), 0, began_ns);
}
