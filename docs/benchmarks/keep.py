"""Keeps what `make bench` measured: `keep.py FOLDER MACHINE` puts the JSON lines of FOLDER into docs/benchmarks/MACHINE.jsonl.

They replace those of the same workloads; workloads that FOLDER does not have stay as they were. Each line keeps all of its figures, and
says of which workload it is; only the buckets of its histograms get wider, 3 % instead of 1 %, which halves the size of the lines.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "bench/report"))

from measurements import lines_of  # noqa: E402

BUCKET_BITS = 6
"""A bucket is as wide as what these leading bits of its time leave open: 1/32 of it at most."""


def coarser(histogram: list[list[int]]) -> list[list[int]]:
    """Pairs of a bucket's upper end and its count, in wider buckets."""
    wide: dict[int, int] = {}
    for nanoseconds, count in histogram:
        shift = max(nanoseconds.bit_length() - BUCKET_BITS, 0)
        end = ((nanoseconds >> shift) + 1 << shift) - 1
        wide[end] = wide.get(end, 0) + count
    return [[end, count] for end, count in sorted(wide.items())]


def kept(run: str, line: str) -> str:
    row = {"run": run} | json.loads(line)
    figures = row.get("figures") or {}
    for latency in (figures.get("latency"), figures.get("insert_latency")):
        if latency:
            latency["histogram_ns"] = coarser(latency["histogram_ns"])
    return json.dumps(row, separators=(",", ":")) + "\n"


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    file = HERE / f"{sys.argv[2]}.jsonl"
    runs = (lines_of(file) if file.exists() else {}) | lines_of(Path(sys.argv[1]))
    file.write_text("".join(kept(run, line) for run in sorted(runs) for line in runs[run]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
