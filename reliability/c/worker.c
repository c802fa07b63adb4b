// A writer process that is a C program over the library in the place of libsqlite3. It has the command line, the orders and the lines of
// src/worker.rs, for the acts that it plays: mix, storm, hold, ask, lists, fork.
#include "worker.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// What it exits with when the campaign is gone, and after an error.
enum { ABANDONED = 3, FAILED = 2, SAID_MAX = 600, PATIENCE_S = 60, THREADS_MAX = 64 };

static atomic_bool stopped;
static sem_t go;

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t next_dice(uint64_t *state) {
    *state = dice((struct operation){ 0, 1 }, *state, 2);
    return *state;
}

// One write: lines are shorter than a pipe's atomic one.
void say(const char *format, ...) {
    char line[SAID_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 2) length = sizeof line - 2;
    line[length] = '\n';
    // Where nobody listens any more, stdin ends too.
    if (write(STDOUT_FILENO, line, (size_t)length + 1) < 0) return;
}

void give_up(sqlite3 *db, const char *what) {
    fprintf(stderr, "the writer in C: %s: %s\n", what, db ? sqlite3_errmsg(db) : "no memory");
    _exit(FAILED);
}

bool is_stopped(void) {
    return atomic_load_explicit(&stopped, memory_order_relaxed);
}

bool is_told_to_go(void) {
    return sem_trywait(&go) == 0;
}

void wait_for_go(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    if (sem_timedwait(&go, &end) != 0) give_up(0, "nobody said go");
}

// Without stdio, whose lock a forked child would inherit.
static void *listen_to_orders(void *unused) {
    char line[100];
    size_t length = 0;
    while (length < sizeof line && read(STDIN_FILENO, &line[length], 1) == 1) {
        if (line[length++] != '\n') continue;
        if (strncmp(line, "stop\n", length) == 0) atomic_store(&stopped, true);
        else if (strncmp(line, "go\n", length) == 0) sem_post(&go);
        length = 0;
    }
    _exit(ABANDONED);
    return unused;
}

sqlite3 *open_database(const struct job *job, const char *mode) {
    char *uri = sqlite3_mprintf("file:%s?transaction_mode=%s", job->database, mode);
    sqlite3 *db = 0;
    if (sqlite3_open_v2(uri, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, 0) != SQLITE_OK) give_up(db, "open the database");
    sqlite3_free(uri);
    sqlite3_busy_timeout(db, (int)job->timeout_ms);
    return db;
}

struct thread {
    pthread_t id;
    const struct job *job;
    long long number;
    // Opened before `ready` is said.
    struct hand hand;
};

static void *write_rows(void *context) {
    struct thread *thread = context;
    const struct job *job = thread->job;
    struct hand *hand = &thread->hand;
    if (strcmp(job->act, "lists") == 0) {
        play_lists(job, thread->number);
        return 0;
    }
    if (strcmp(job->act, "hold") == 0) hand_hold(hand);
    if (strcmp(job->act, "ask") == 0) {
        wait_for_go();
        say("asking");
        hand_immediate_now(hand);
    }
    for (long long done = 0; !is_stopped() && (job->count == 0 || done < job->count); done++) {
        if (strcmp(job->act, "storm") == 0) hand_insert_next(hand);
        else hand_next(hand);
    }
    hand_close(hand);
    return 0;
}

static void read_job(struct job *job, int count, char **words) {
    for (int i = 2; i + 1 < count; i += 2) {
        const char *name = words[i], *value = words[i + 1];
        if (strcmp(name, "--database") == 0) job->database = value;
        else if (strcmp(name, "--act") == 0) job->act = value;
        else if (strcmp(name, "--number") == 0) job->number = atoll(value);
        else if (strcmp(name, "--seed") == 0) job->seed = strtoull(value, 0, 10);
        else if (strcmp(name, "--threads") == 0) job->threads = atoll(value);
        else if (strcmp(name, "--timeout-ms") == 0) job->timeout_ms = atoll(value);
        else if (strcmp(name, "--count") == 0) job->count = atoll(value);
    }
    if (!job->database || !job->act || job->threads > THREADS_MAX) give_up(0, "not a job");
}

int main(int count, char **words) {
    static struct job job = { .threads = 1, .timeout_ms = 60000 };
    static struct thread threads[THREADS_MAX];
    pthread_t listener;
    read_job(&job, count, words);
    sem_init(&go, 0, 0);
    if (pthread_create(&listener, 0, listen_to_orders, 0) != 0) give_up(0, "start a thread");
    if (strcmp(job.act, "fork") == 0) {
        fork_everywhere(&job);
    } else {
        for (long long i = 0; i < job.threads; i++) {
            threads[i].job = &job;
            threads[i].number = i;
            if (strcmp(job.act, "lists") != 0) hand_open(&threads[i].hand, &job, job.number * 100 + i);
        }
        say("ready");
        for (long long i = 0; i < job.threads; i++) {
            if (pthread_create(&threads[i].id, 0, write_rows, &threads[i]) != 0) give_up(0, "start a thread");
        }
        for (long long i = 0; i < job.threads; i++) pthread_join(threads[i].id, 0);
    }
    say("end");
    return 0;
}
