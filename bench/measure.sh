#!/bin/sh
# bench/measure.sh RESULTS PROGRAM NAME [ARGUMENT...]
#
# What the program measures becomes RESULTS/NAME.jsonl, and its table is shown. A failed check does not stop the measurements that come after it:
# its name is kept in RESULTS/failed.
set -u
results=$1 program=$2 name=$3
shift 3
"$program" "$@" > "$results/$name.jsonl" || echo "$name" >> "$results/failed"
python3 "$(dirname "$0")/report" "$results/$name.jsonl" || true
