// What an operation writes follows from the seed, the writer's number and the operation's: the same as in src/entry.rs, for whose judge a
// difference is a finding.
#include "worker.h"

uint64_t dice(struct operation operation, uint64_t seed, int64_t part) {
    uint64_t mixed = seed;
    const int64_t numbers[] = { operation.writer, operation.sequence, part };
    for (int i = 0; i < 3; i++) {
        mixed = (mixed + 0x9E3779B97F4A7C15) ^ (uint64_t)numbers[i];
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9;
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB;
        mixed ^= mixed >> 31;
    }
    return mixed;
}

enum kind kind_of(struct operation operation, uint64_t seed) {
    static const int below[] = { 26, 39, 52, 64, 73, 79, 85, 91, 93, 97, 100 };
    int number = (int)(dice(operation, seed, -1) % 100), kind = 0;
    while (number >= below[kind]) kind++;
    return (enum kind)kind;
}

int64_t id_of(struct operation operation, uint64_t seed, int64_t part, bool low) {
    return (int64_t)dice(operation, seed, 2 * part + low);
}
