"""Keeps what `make bench` measured: `keep.py FOLDER MACHINE` puts the JSON lines of FOLDER into docs/benchmarks/MACHINE.

A file replaces the one of its name; workloads that FOLDER does not have stay as they were. Each line keeps all of its figures;
only the buckets of its histograms get wider, 3 % instead of 1 %, which halves the size of the lines.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
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


def kept(line: str) -> str:
    row = json.loads(line)
    figures = row.get("figures") or {}
    for latency in (figures.get("latency"), figures.get("insert_latency")):
        if latency:
            latency["histogram_ns"] = coarser(latency["histogram_ns"])
    return json.dumps(row, separators=(",", ":")) + "\n"


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder, place = Path(sys.argv[1]), HERE / sys.argv[2]
    place.mkdir(exist_ok=True)
    for path in sorted(folder.glob("*.jsonl")):
        (place / path.name).write_text("".join(kept(line) for line in path.read_text().splitlines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
