// A process that forks in every state of its connections: amid its transactions, with a statement and a blob open, while threads of its own
// write, open and close. What it says, and what its children are for, stands in worker/forking.rs; a C program can't stop at a crash point.
//
// What was opened before a fork is of no use to the child: what it begins there is refused, nothing hangs, and to close it hurts nobody.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "worker.h"

// How often it forks while everybody works, and in its own turn.
enum { ANYWHERE = 16, TURNS = 2, CHILDREN_MAX = 1000, CHILD_PATIENCE_S = 90, LINGER_MS = 100000, OPERATIONS = 2, WRITERS_MAX = 16 };

enum deed { EXITS, DIES, EXECUTES, USES, OPENS, FORKS, LINGERS };
static const char *const DEED[] = { "Exits", "Dies", "Executes", "Uses", "Opens", "Forks", "Lingers" };

// What the thread that forks has open.
struct inventory {
    const struct job *job;
    sqlite3 *idle;
    // Of transactions before their first write, after it, and in their turn.
    struct hand before, after, turn;
    sqlite3_stmt *cursor;
    sqlite3_blob *blob;
    bool in_its_turn;
};

struct child { pid_t pid; enum deed deed; const char *state; uint64_t since_ns; };

static struct child children[CHILDREN_MAX];
static int child_count, forked, anywhere, turns, once;
static bool said_round;
static uint64_t state;

static void refused(const char *what, sqlite3 *db, int code) {
    if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) {
        say("wrong %s was not refused", what);
        exit(1);
    }
    if (!strstr(sqlite3_errmsg(db), "before fork()")) {
        say("wrong %s: not a clear error: %d %s", what, code, sqlite3_errmsg(db));
        exit(1);
    }
}

static void use(sqlite3 *db) {
    static const char *const REFUSED[] = {
        "INSERT INTO large VALUES (3, x'')", "SELECT count(*) FROM counter", "BEGIN", "COMMIT", "ROLLBACK", "PRAGMA user_version=7",
        "CREATE TABLE forked (n)",
    };
    sqlite3_interrupt(db);
    // Figures, of whatever.
    sqlite3_changes(db);
    sqlite3_total_changes(db);
    sqlite3_last_insert_rowid(db);
    sqlite3_get_autocommit(db);
    sqlite3_txn_state(db, 0);
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) refused(REFUSED[i], db, sqlite3_exec(db, REFUSED[i], 0, 0, 0));
    refused("a checkpoint", db, sqlite3_wal_checkpoint_v2(db, 0, SQLITE_CHECKPOINT_PASSIVE, 0, 0));
}

static void use_all(struct inventory *it) {
    char bytes[10];
    use(it->idle);
    if (it->in_its_turn) {
        use(it->turn.db);
    } else {
        use(it->before.db);
        use(it->after.db);
    }
    // What has begun SQLite itself goes on with; it tells a program not to.
    sqlite3_step(it->cursor);
    sqlite3_reset(it->cursor);
    refused("a statement", it->idle, sqlite3_step(it->cursor));
    sqlite3_blob_read(it->blob, bytes, sizeof bytes, 0);
}

// Lets go of all that was opened before the fork.
static void close_all(struct inventory *it) {
    struct hand *hands[] = { &it->before, &it->after, &it->turn };
    sqlite3_finalize(it->cursor);
    sqlite3_blob_close(it->blob);
    for (int i = 0; i < 3; i++) {
        for (int kept = 0; kept < KEPT; kept++) sqlite3_finalize(hands[i]->kept[kept]);
        sqlite3_close_v2(hands[i]->db);
    }
    sqlite3_close_v2(it->idle);
}

static void write_some(const struct job *job, long long writer, int operations) {
    struct hand hand;
    hand_open(&hand, job, writer);
    for (int i = 0; i < operations; i++) hand_next(&hand);
    hand_close(&hand);
}

// A child that is a parent: its own child is refused what it has opened, and then both write.
static void fork_again(const struct job *job, long long writer) {
    struct hand hand;
    hand_open(&hand, job, writer);
    hand_next(&hand);
    pid_t pid = fork();
    if (pid == 0) {
        use(hand.db);
        write_some(job, writer + 500, OPERATIONS);
        exit(0);
    }
    hand_next(&hand);
    int status = -1;
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        say("wrong a grandchild ended with %d", status);
        exit(1);
    }
    hand_next(&hand);
    hand_close(&hand);
}

static void linger(const struct job *job) {
    char release[400];
    const char *folder_end = strrchr(job->database, '/');
    snprintf(release, sizeof release, "%.*srelease", (int)(folder_end + 1 - job->database), job->database);
    for (int ms = 0; ms < LINGER_MS && access(release, F_OK) != 0; ms += 2) usleep(2000);
}

static void live(enum deed deed, struct inventory *it, long long writer) {
    const struct job *job = it->job;
    switch (deed) {
    case EXITS: break;
    case DIES: kill(getpid(), SIGKILL); break;
    case EXECUTES: execlp("true", "true", (char *)0); exit(1);
    case USES:
        use_all(it);
        close_all(it);
        write_some(job, writer, OPERATIONS);
        break;
    case OPENS:
        write_some(job, writer, OPERATIONS);
        use_all(it);
        break;
    case FORKS: fork_again(job, writer); break;
    case LINGERS:
        linger(job);
        use_all(it);
        close_all(it);
        write_some(job, writer, OPERATIONS);
        say("forked Lingers");
        break;
    }
    exit(0);
}

// Makes the children, all in one state.
static void fork_all(void *context) {
    struct inventory *it = context;
    enum deed deeds[4] = { (enum deed)(next_dice(&state) % 3), USES, OPENS };
    int count = 3;
    if (once > 0 && next_dice(&state) % 4 == 0) deeds[count++] = --once == 0 ? LINGERS : FORKS;
    const char *where = it->in_its_turn ? "in its turn" : "anywhere";
    for (int i = 0; i < count; i++) {
        long long writer = 10000 + it->job->number * 1000 + ++forked;
        pid_t pid = fork();
        if (pid == 0) live(deeds[i], it, writer);
        if (pid < 0) say("wrong fork: %s", strerror(errno));
        else if (deeds[i] == LINGERS) say("lingers %d", (int)pid);
        else children[child_count++] = (struct child){ pid, deeds[i], where, now_ns() };
    }
    say("reached %s", where);
}

static void fork_after_the_first_write(void *context) {
    struct inventory *it = context;
    hand_pair_with(&it->after, "BEGIN CONCURRENT", true, fork_all, it);
}

// Forks in the middle of own transactions. What was open is read to its end afterwards.
static void fork_amid(struct inventory *it) {
    char bytes[100];
    if (sqlite3_prepare_v2(it->idle, "SELECT n FROM counter ORDER BY id", -1, &it->cursor, 0) != SQLITE_OK) give_up(it->idle, "prepare");
    if (sqlite3_step(it->cursor) != SQLITE_ROW) give_up(it->idle, "the counters are gone");
    if (sqlite3_blob_open(it->idle, "main", "large", "content", 1, 0, &it->blob) != SQLITE_OK) give_up(it->idle, "open a blob");
    it->in_its_turn = turns < TURNS && (next_dice(&state) % 10 == 0 || anywhere == ANYWHERE);
    if (it->in_its_turn) {
        turns++;
        hand_pair_with(&it->turn, "BEGIN IMMEDIATE", true, fork_all, it);
    } else {
        anywhere += anywhere < ANYWHERE;
        hand_pair_with(&it->before, "BEGIN CONCURRENT", false, fork_after_the_first_write, it);
    }
    int rows = 0;
    while (sqlite3_step(it->cursor) == SQLITE_ROW) rows++;
    if (rows != 4) say("wrong the statement had %d rows more after a fork: %s", rows, sqlite3_errmsg(it->idle));
    if (sqlite3_blob_read(it->blob, bytes, sizeof bytes, 10000) != SQLITE_OK) say("wrong the blob after a fork: %s", sqlite3_errmsg(it->idle));
    sqlite3_blob_close(it->blob);
    sqlite3_finalize(it->cursor);
}

// Takes note of children that have ended.
static void bury(void) {
    for (int i = child_count - 1; i >= 0; i--) {
        struct child child = children[i];
        int status, late = now_ns() - child.since_ns > (uint64_t)CHILD_PATIENCE_S * 1000000000;
        pid_t ended = waitpid(child.pid, &status, WNOHANG);
        if (ended == 0 && !late) continue;
        children[i] = children[--child_count];
        if (ended == 0) {
            say("wrong %s at %s hangs", DEED[child.deed], child.state);
            kill(child.pid, SIGKILL);
            waitpid(child.pid, &status, 0);
        } else if (ended > 0 && status == (child.deed == DIES ? SIGKILL : 0)) {
            say("forked %s", DEED[child.deed]);
        } else {
            say("wrong %s at %s ended with %d", DEED[child.deed], child.state, status);
        }
    }
}

// Holds the turn, and reads, until its death.
static void hold_until_go(void *context) {
    (void)context;
    say("holding");
    wait_for_go();
}

static void *write_until_stopped(void *context) {
    while (!is_stopped()) hand_next(context);
    hand_close(context);
    return 0;
}

// Opens a connection, attaches another database, and closes all.
static void *come_and_go(void *context) {
    const struct job *job = context;
    char *other = sqlite3_mprintf("%s.attached", job->database);
    char *attach = sqlite3_mprintf("ATTACH %Q AS other; CREATE TABLE IF NOT EXISTS other.visit (n); INSERT INTO other.visit VALUES (1)", other);
    while (!is_stopped()) {
        sqlite3 *db = open_database(job, "auto");
        if (sqlite3_exec(db, attach, 0, 0, 0) != SQLITE_OK) say("wrong a visit: %s", sqlite3_errmsg(db));
        if (sqlite3_close(db) != SQLITE_OK) say("wrong the end of a visit: %s", sqlite3_errmsg(db));
        usleep(1000);
    }
    sqlite3_free(attach);
    sqlite3_free(other);
    return 0;
}

void fork_everywhere(const struct job *job) {
    static const char TABLES[] = "CREATE TABLE IF NOT EXISTS large (id INTEGER PRIMARY KEY, content BLOB); "
        "INSERT OR IGNORE INTO large VALUES (1, zeroblob(20000)), (2, x'00')";
    static struct hand hands[WRITERS_MAX];
    struct inventory it = { .job = job, .idle = open_database(job, "auto") };
    pthread_t threads[WRITERS_MAX + 1];
    int writers = (int)job->threads;
    if (writers > WRITERS_MAX || sqlite3_exec(it.idle, TABLES, 0, 0, 0) != SQLITE_OK) give_up(it.idle, "make tables");
    hand_open(&it.before, job, job->number * 100 + 10);
    hand_open(&it.after, job, job->number * 100 + 11);
    hand_open(&it.turn, job, job->number * 100 + 12);
    for (int i = 0; i < writers; i++) hand_open(&hands[i], job, job->number * 100 + i);
    say("ready");
    for (int i = 0; i < writers; i++) {
        if (pthread_create(&threads[i], 0, write_until_stopped, &hands[i]) != 0) give_up(0, "start a thread");
    }
    if (pthread_create(&threads[writers], 0, come_and_go, (void *)job) != 0) give_up(0, "start a thread");
    state = ~job->seed;
    once = 2;
    while (!is_stopped()) {
        bool everywhere = anywhere == ANYWHERE && turns == TURNS && once == 0;
        if (!everywhere) fork_amid(&it);
        else if (said_round && is_told_to_go()) hand_pair_with(&it.turn, "BEGIN IMMEDIATE", true, hold_until_go, 0);
        bury();
        if (!said_round && everywhere && child_count == 0) {
            said_round = true;
            say("round");
        }
        if (everywhere) usleep(1000);
    }
    for (int i = 0; i <= writers; i++) pthread_join(threads[i], 0);
    while (child_count > 0) bury();
    hand_close(&it.before);
    hand_close(&it.after);
    hand_close(&it.turn);
    if (sqlite3_close(it.idle) != SQLITE_OK) give_up(it.idle, "close");
}
