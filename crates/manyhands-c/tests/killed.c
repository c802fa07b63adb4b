// Writers that are killed at any moment: what was acknowledged is in the file, once; nothing is there that nobody began; and the file is
// whole. Each writer notes in shared memory what it has begun, and what it was told.
#include "story.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { WRITERS = 6, ROWS = 200000, KILLS = 120 };

struct notes {
    // By writer: the number of its last row that was begun, and that was acknowledged.
    volatile int begun[WRITERS], acknowledged[WRITERS];
};

static void write_rows(struct notes *notes, int writer) {
    sqlite3 *db = open_app();
    sqlite3_stmt *insert, *both;
    OK(db, sqlite3_busy_timeout(db, 30 * 1000));
    OK(db, sqlite3_prepare_v2(db, "INSERT INTO row (writer, n) VALUES (?, ?)", -1, &insert, 0));
    OK(db, sqlite3_prepare_v2(db, "UPDATE total SET n = n + 1", -1, &both, 0));
    OK(db, sqlite3_bind_int(insert, 1, writer));
    for (int n = notes->begun[writer] + 1; n < ROWS; n++) {
        notes->begun[writer] = n;
        // One in three is a transaction of two statements.
        if (n % 3 == 0) run(db, "BEGIN");
        OK(db, sqlite3_bind_int(insert, 2, n));
        CHECK_CODE(db, SQLITE_DONE, sqlite3_step(insert));
        OK(db, sqlite3_reset(insert));
        if (n % 3 == 0) {
            CHECK_CODE(db, SQLITE_DONE, sqlite3_step(both));
            OK(db, sqlite3_reset(both));
            run(db, "COMMIT");
        }
        notes->acknowledged[writer] = n;
    }
    exit(2);
}

static pid_t start(struct notes *notes, int writer) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) write_rows(notes, writer);
    return pid;
}

int main(void) {
    sqlite3 *db = open_app();
    run(db, "CREATE TABLE row (writer, n, UNIQUE (writer, n)); CREATE TABLE total (n); INSERT INTO total VALUES (0)");
    OK(db, sqlite3_close(db));
    struct notes *notes = mmap(0, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(notes != MAP_FAILED);
    pid_t writers[WRITERS];
    for (int writer = 0; writer < WRITERS; writer++) writers[writer] = start(notes, writer);
    // What was acknowledged before each kill, by each writer; a row that was begun last may be there or not.
    static int gaps[WRITERS][KILLS + 1], known[WRITERS];
    unsigned seed = 7;
    for (int kills = 0; kills < KILLS; kills++) {
        usleep(rand_r(&seed) % 40000);
        int writer = rand_r(&seed) % WRITERS, status;
        kill(writers[writer], SIGKILL);
        CHECK(waitpid(writers[writer], &status, 0) == writers[writer]);
        CHECK(WIFSIGNALED(status));
        if (notes->begun[writer] != notes->acknowledged[writer]) {
            gaps[writer][known[writer]++] = notes->begun[writer];
            notes->acknowledged[writer] = notes->begun[writer];
        }
        writers[writer] = start(notes, writer);
    }
    for (int writer = 0; writer < WRITERS; writer++) {
        int status;
        kill(writers[writer], SIGKILL);
        CHECK(waitpid(writers[writer], &status, 0) == writers[writer] && WIFSIGNALED(status));
        if (notes->begun[writer] != notes->acknowledged[writer]) {
            gaps[writer][known[writer]++] = notes->begun[writer];
        }
    }
    db = open_app();
    long long acknowledged = 0;
    for (int writer = 0; writer < WRITERS; writer++) {
        sqlite3_stmt *read;
        OK(db, sqlite3_prepare_v2(db, "SELECT n FROM row WHERE writer = ? ORDER BY n", -1, &read, 0));
        OK(db, sqlite3_bind_int(read, 1, writer));
        int wanted = 1, gap = 0;
        while (sqlite3_step(read) == SQLITE_ROW) {
            int n = sqlite3_column_int(read, 0);
            while (wanted < n) {
                // Only a row whose writer was killed in the middle may be missing.
                while (gap < known[writer] && gaps[writer][gap] < wanted) gap++;
                CHECK(gap < known[writer] && gaps[writer][gap] == wanted);
                wanted++;
            }
            CHECK(n == wanted);
            wanted++;
        }
        OK(db, sqlite3_finalize(read));
        for (; gap < known[writer]; gap++) wanted += gaps[writer][gap] == wanted;
        CHECK(wanted == notes->begun[writer] + 1);
        acknowledged += wanted;
    }
    CHECK(number(db, "SELECT (SELECT n FROM total) = (SELECT count(*) FROM row WHERE n % 3 = 0)") == 1);
    sqlite3_stmt *check;
    OK(db, sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &check, 0));
    CHECK(sqlite3_step(check) == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(check, 0), "ok") == 0);
    OK(db, sqlite3_finalize(check));
    OK(db, sqlite3_close(db));
    printf("killed: %d kills, %lld rows, none missing or twice\n", KILLS + WRITERS, acknowledged);
    return 0;
}
