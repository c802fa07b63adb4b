/* Sees which library serves a test suite, and can have each of its databases be a file in WAL mode.
 *
 * It is preloaded before the SQLite library, and stands before three of its functions. Each connection adds a line to the file SUITE_CONNECTIONS: the
 * path of the library that has opened it. With SUITE_IN_WAL, a folder, ":memory:" is a new file there, and each file is put into WAL mode: what a
 * driver's tests say of any database is then said of those that several processes write.
 *
 * It has the name that drivers ask the loader for, libsqlite3.so.0, since a program may look into what a driver names before it looks into what is
 * preloaded (PHP does, by RTLD_DEEPBIND). What is not here is then found in the library, which is preloaded too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SQLITE_OK 0
#define SQLITE_OPEN_READONLY 1
#define SQLITE_OPEN_READWRITE 2
#define SQLITE_OPEN_CREATE 4
#define SQLITE_OPEN_MEMORY 0x80

typedef struct sqlite3 sqlite3;
extern int sqlite3_exec(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);

static void *served(const char *function) {
    void *next = dlsym(RTLD_NEXT, function);
    const char *file = getenv("SUITE_CONNECTIONS");
    Dl_info library;
    if (file != NULL && dladdr(next, &library) != 0) {
        int descriptor = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        /* One write, so that the lines of several processes do not mix. */
        char line[1000];
        int length = snprintf(line, sizeof line, "%s\n", library.dli_fname);
        if (descriptor < 0 || write(descriptor, line, length) != length) perror(file);
        close(descriptor);
    }
    return next;
}

/* The file in place of a database in memory, or NULL when the name is to stay. */
static const char *replaced(const char *name, char *path, size_t size) {
    static atomic_int number;
    const char *folder = getenv("SUITE_IN_WAL");
    if (folder == NULL || name == NULL || strcmp(name, ":memory:") != 0) return NULL;
    snprintf(path, size, "%s/memory-%d-%d.db", folder, (int)getpid(), atomic_fetch_add(&number, 1));
    return path;
}

static int use_wal(int result, sqlite3 **database) {
    if (result == SQLITE_OK && getenv("SUITE_IN_WAL") != NULL) sqlite3_exec(*database, "PRAGMA journal_mode=WAL", NULL, NULL, NULL);
    return result;
}

int sqlite3_open_v2(const char *name, sqlite3 **database, int flags, const char *vfs) {
    int (*next)(const char *, sqlite3 **, int, const char *) = served("sqlite3_open_v2");
    char path[4096];
    const char *file = replaced(name, path, sizeof path);
    if (file == NULL || (flags & SQLITE_OPEN_MEMORY)) return use_wal(next(name, database, flags, vfs), database);
    /* In memory, a database that may only be read can be opened as well: it is empty. */
    flags = (flags & ~SQLITE_OPEN_READONLY) | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    return use_wal(next(file, database, flags, vfs), database);
}

int sqlite3_open(const char *name, sqlite3 **database) {
    int (*next)(const char *, sqlite3 **) = served("sqlite3_open");
    char path[4096];
    const char *file = replaced(name, path, sizeof path);
    return use_wal(next(file == NULL ? name : file, database), database);
}

int sqlite3_open16(const void *name, sqlite3 **database) {
    int (*next)(const void *, sqlite3 **) = served("sqlite3_open16");
    return next(name, database);
}
