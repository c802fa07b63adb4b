"""What stays in memory and on the disk, however long it runs: what `reliability memory` measured, its table and targets."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from measurements import MEMORY, lines_of
from targets import Verdict

TITLE = "Memory: nothing that grows with time"
CONNECTION_KB_MOST = 2_048
"""What one more idle connection may take."""
QUEUE_FILE_BYTES_MOST = 8 << 20
GROWTH_KB_MOST = 1_024
"""How much more memory a writer may have at its end than after the first fifth of its writes: what the allocator does in between."""


@dataclass(frozen=True)
class Memory:
    command: str
    machine: str
    figures: dict[str, int]
    findings: list[Any]

    @property
    def growth(self) -> str:
        writes, early = (self.figures[name] for name in ("writes_each", "writes_early"))
        return f"{self.figures['growth_kb']:+,} kB from write {early:,} to write {writes:,} of each process"

    def rows(self) -> list[tuple[str, str, str, bool]]:
        """What, the target, what was measured, and whether it is enough."""
        figures = self.figures
        connections, queue_file, growth = (figures[name] for name in ("connection_kb", "queue_file_bytes", "growth_kb"))
        return [
            (
                f"an idle connection, one of {figures['connections']:,}",
                f"at most {CONNECTION_KB_MOST * 1024 / 2**20:.0f} MiB",
                f"{connections:,} kB",
                connections <= CONNECTION_KB_MOST,
            ),
            (
                "the queue file, which all processes share",
                f"at most {QUEUE_FILE_BYTES_MOST / 2**20:.0f} MiB",
                f"{queue_file / 2**20:.2f} MiB",
                queue_file <= QUEUE_FILE_BYTES_MOST,
            ),
            (
                "a process that writes, late and early",
                f"no growth: at most {GROWTH_KB_MOST / 1024:.0f} MiB, the allocator's own",
                self.growth,
                growth <= GROWTH_KB_MOST,
            ),
        ]

    def verdicts(self) -> list[Verdict]:
        return [Verdict(MEMORY, f"{what}: {target}", measured, met, "") for what, target, measured, met in self.rows()]


def load_memory(where: Path) -> Optional[Memory]:
    """What is in the folder or the file, if it was measured: the newest line counts.

    :raises ValueError: a line is not what `reliability memory --json` writes.
    """
    memory = None
    for number, line in enumerate(lines_of(where).get(MEMORY, []), 1):
        try:
            row = json.loads(line)
            memory = Memory(row["command"], row["machine"], row["figures"], row["findings"])
            memory.rows()
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{where}, line {number}: not a line of `reliability memory --json`: {error!r}") from error
    return memory


def table(memory: Memory) -> str:
    rows = ["<tr><th><th class=words>target<th class=words>measured<th>met"]
    for what, target, measured, met in memory.rows():
        answer = "<span class=win>yes</span>" if met else "<span class=loss>no</span>"
        rows.append(f"<tr><td>{html.escape(what)}<td class=words>{html.escape(target)}<td class=words>{html.escape(measured)}<td>{answer}")
    return f"<table>{''.join(rows)}</table>"


def sentence(memory: Memory) -> str:
    found = f" Findings: {'; '.join(str(it['what']) for it in memory.findings)}." if memory.findings else ""
    return (
        f"Resident memory of a process with open connections, and of two processes that make {memory.figures['writes']:,} writes of all kinds together, "
        f"the part that is no file's. Nothing is timed. The WAL had {memory.figures['wal_bytes_max'] / 2**20:.1f} MiB at most.{found}"
    )
