#!/bin/sh
# Builds the fuzz targets as cargo-fuzz does, with whatever compiler there is, and runs one, or all of them two at a
# time with a line for each:
#
#     fuzz/run.sh TARGET SECONDS [INPUT...]
#     fuzz/run.sh all SECONDS
#
# With inputs, those are replayed; without, the fuzzer searches, and keeps in corpus/ what reaches new code. It begins with seeds/TARGET, which has an
# input on each line, in hexadecimal: `xxd -p -c 0 INPUT >> seeds/TARGET` keeps one.
# SEED=1 searches in the order of that number, as far as the machine's timing lets it, and none in another one each time.
# SANITIZER=address instruments SQLite, too: what is read or written outside its memory is found at once, at a part of
# the speed.
set -eu
target=$1 seconds=$2
shift 2
cd "$(dirname "$0")"
sanitizer=${SANITIZER:-none}
directory="${CARGO_TARGET_DIR:-target}/$sanitizer"
# A stable compiler can do all of this; only how a sanitizer is asked for may change.
export RUSTC_BOOTSTRAP=1
triple=$(rustc -vV | sed -n 's/^host: //p')
# SQLite's own sources have two static tables of one name, which AddressSanitizer takes for one.
export ASAN_OPTIONS="detect_odr_violation=0:${ASAN_OPTIONS:-}"

build() {
    flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
    flags="$flags -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
    flags="$flags -Cllvm-args=-sanitizer-coverage-pc-table"
    flags="$flags -Cllvm-args=-sanitizer-coverage-trace-compares"
    flags="$flags --cfg fuzzing -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1"
    [ "$sanitizer" = none ] || flags="$flags -Zsanitizer=$sanitizer"
    RUSTFLAGS="$flags" "${CARGO:-cargo}" build --locked --release --target "$triple" --target-dir "$directory" --bins
}

# Each line of hexadecimal digits becomes a file.
unpack() {
    python3 -c 'import pathlib, sys
for number, line in enumerate(sys.stdin):
    pathlib.Path(sys.argv[1], str(number)).write_bytes(bytes.fromhex(line))' "$1"
}

run() {
    target=$1
    shift
    mkdir -p "corpus/$target" "$TMPDIR/seeds/$target" "artifacts/$target"
    if [ $# -eq 0 ]; then
        [ ! -e "seeds/$target" ] || unpack < "seeds/$target" "$TMPDIR/seeds/$target"
        set -- "corpus/$target" "$TMPDIR/seeds/$target" -max_total_time="$seconds" -max_len=1024 -len_control=0 -seed="${SEED:-0}"
        [ ! -e "dictionaries/$target" ] || set -- "$@" -dict="dictionaries/$target"
    fi
    # Longer than a leader gives to the requests of one round, on a machine that has others to serve. What stays open
    # between inputs is no leak, and to search all memory for one takes longer than an input.
    "$directory/$triple/release/$target" -timeout=120 -detect_leaks=0 -artifact_prefix="artifacts/$target/" "$@"
}

# A target's run as a line; all that it says is in artifacts/TARGET.log.
tell() {
    mkdir -p artifacts
    if run "$1" > "artifacts/$1.log" 2>&1; then
        sed -n "s/^#\([0-9]*\).*DONE *cov: \([0-9]*\).*/$1: \1 inputs, \2 places in the code, no finding/p" "artifacts/$1.log"
    else
        tail -n 60 "artifacts/$1.log"
        input=$(sed -n 's/.*Test unit written to //p' "artifacts/$1.log" | tail -n 1)
        echo "$1: a finding; fuzz/run.sh $1 0 ${input:-artifacts/$1} replays it"
        return 1
    fi
}

build
# The targets' files are in memory, where there is such a file system, and a fuzzer never returns to remove them.
[ -n "${TMPDIR:-}" ] || [ ! -d /dev/shm ] || TMPDIR=/dev/shm
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/manyhands-fuzz-XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM
if [ "$target" != all ]; then
    run "$target" "$@"
    exit
fi
found=0
set -- $(sed -n 's/^name = "\([a-z_]*\)"$/\1/p' Cargo.toml)
while [ $# -gt 0 ]; do
    tell "$1" & one=$!
    [ $# -lt 2 ] || tell "$2" || found=1
    wait $one || found=1
    shift $(($# < 2 ? 1 : 2))
done
exit $found
