/* Preloaded into a process, it makes each sync of a file take longer: `--sync-us` of the benchmark. What of the benchmark's own processes syncs goes
   through `sync_count` of manyhands-sqlite, which does the same. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int slow(long call, int descriptor) {
    const char *us = getenv("MANYHANDS_SYNC_US");
    long long left = us ? atoll(us) : 0;
    struct timespec pause = {left / 1000000, left % 1000000 * 1000};
    nanosleep(&pause, NULL);
    return (int)syscall(call, descriptor);
}

int fsync(int descriptor) {
    return slow(SYS_fsync, descriptor);
}

int fdatasync(int descriptor) {
    return slow(SYS_fdatasync, descriptor);
}
