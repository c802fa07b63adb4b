#!/bin/sh
# Builds one fuzz target as cargo-fuzz does, and runs it: fuzz/run.sh TARGET SECONDS [INPUT...]
set -eu
target=$1 seconds=$2
shift 2
cd "$(dirname "$0")"
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-pc-table"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-trace-compares"
export RUSTFLAGS="$coverage -Zsanitizer=address --cfg fuzzing -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1"
triple=$(rustc +nightly -vV | sed -n 's/^host: //p')
cargo +nightly build --release --target "$triple" --bin "$target"
mkdir -p "corpus/$target" "seeds/$target" "artifacts/$target"
binary="${CARGO_TARGET_DIR:-target}/$triple/release/$target"
# With inputs, those are replayed; without, the fuzzer searches.
if [ $# -eq 0 ]; then
    set -- "corpus/$target" "seeds/$target" -max_total_time="$seconds" -max_len=1024 -len_control=0
fi
# SQLite's own sources have two static tables of one name, which AddressSanitizer takes for one.
export ASAN_OPTIONS="detect_odr_violation=0:${ASAN_OPTIONS:-}"
# Longer than a leader gives to the requests of one round.
exec "$binary" -timeout=20 -artifact_prefix="artifacts/$target/" "$@"
