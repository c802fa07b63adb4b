// What the parts of the writer in C share. See worker.c.
#ifndef WORKER_H
#define WORKER_H
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

// The job, as the command line tells it.
struct job {
    const char *database, *act;
    long long number, threads, count, timeout_ms;
    uint64_t seed;
};

// What an operation does, as src/entry.rs has it.
enum kind {
    INSERT, PAIR, COUNT, BARE_COUNT, IMMEDIATE, OPTIMISTIC, BLIND, LARGE, SCHEMA, REFUSED, REFUSED_PAIR
};

struct operation { int64_t writer, sequence; };

// The statements that a hand keeps.
enum kept { KEPT_INSERT, KEPT_INSERT_COUNT, KEPT_COUNT, KEPT_READ, KEPT_WRITE, KEPT_BEGIN, KEPT_COMMIT, KEPT };

// One connection that performs operation after operation, and says what came of each.
struct hand {
    sqlite3 *db;
    sqlite3_stmt *kept[KEPT];
    struct operation last;
    const struct job *job;
};

// worker.c
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void give_up(sqlite3 *db, const char *what) __attribute__((noreturn));
uint64_t now_ns(void);
bool is_stopped(void);
bool is_told_to_go(void);
void wait_for_go(void);
sqlite3 *open_database(const struct job *job, const char *mode);
// The next number of a sequence.
uint64_t next_dice(uint64_t *state);

// entry.c
uint64_t dice(struct operation operation, uint64_t seed, int64_t part);
enum kind kind_of(struct operation operation, uint64_t seed);
int64_t id_of(struct operation operation, uint64_t seed, int64_t part, bool low);

// hand.c
void hand_open(struct hand *hand, const struct job *job, int64_t writer);
void hand_close(struct hand *hand);
void hand_next(struct hand *hand);
void hand_insert_next(struct hand *hand);
void hand_immediate_now(struct hand *hand);
void hand_hold(struct hand *hand);
// Performs a pair as a transaction: `meanwhile` is called before its first write, or after it.
void hand_pair_with(struct hand *hand, const char *begin, bool after_first_write, void (*meanwhile)(void *), void *context);

// lists.c
void play_lists(const struct job *job, long long thread);

// forking.c
void fork_everywhere(const struct job *job);
#endif
