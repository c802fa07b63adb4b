"""The long column: every campaign, with numbers that take days, in slices of about a minute. `make campaign` plays it.

The entry that is least far in proportion has the next slice. A slice is a run of the program `reliability`, which appends one line to the results
when it is over; then the page is written anew. So whatever ends this script, Ctrl-C, SIGKILL or the power, takes away one slice at most: started
again, it reads the results and goes on where each entry ends.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMIT = os.environ.get("MANYHANDS_COMMIT") or None
WORDS_MAX = 400
"""How much of a finding's words the page has."""
GREATEST = ("_ms", "_kb", "_bytes", "_max")
"""How the names of figures end of which the greatest counts, and not the sum."""
WRITER = "target/dropin-campaign/writer"
"""A writer in C over the library in the place of libsqlite3: `make c-writer`."""
NEED_ROOT = ("full", "stopped", "environment --case memory", "environment --case namespaces")
"""They mount file systems, make control groups and namespaces. `power-cut` says so itself."""


@dataclass
class Entry:
    """A campaign of the column."""

    words: str
    """Of the command line, which are its name."""
    goals: dict[str, int]
    """Figures, and the number to come to. One that ends in `*` is the least of those that begin so."""
    beside: list[str] = field(default_factory=list)
    """Figures that the page tells, too: what is not counted, and controls."""
    slice: tuple[str, int] | None = None
    """The option that says how long a slice is, and that; none where one run is all."""
    from_: str = "--from-round"
    """The option that says where a slice begins."""
    seeded: bool = True
    must_lose: bool = False
    """A slice has to lose something: a part of it may not."""
    patience: int = 900
    """Seconds after which a slice hangs."""

    def command(self, seed: int, start: int) -> list[str]:
        words = self.words.split()
        words += ["--seed", str(seed)] if self.seeded else []
        return words + ([self.from_, str(start), self.slice[0], str(self.slice[1])] if self.slice else [])

    def part(self, divisor: int) -> None:
        """Divides the numbers."""
        if self.slice:
            self.goals = {figure: -(-number // divisor) for figure, number in self.goals.items()}
            if not self.must_lose:
                self.slice = (self.slice[0], -(-self.slice[1] // divisor))


DEATHS = ["rounds", "acknowledged"]
CALLS = ["cases", "acknowledged", "errors"]
CUTS = ["acknowledged", "with_a_loss", "late", "late_and_gone"]
ERRORS = ["acknowledged", "errors"]
ATTACKS = ["attacks", "acknowledged", "unknown", "timeouts", "other_errors", "outside"]
GAVE_WAY = ["gave_way", "gave_way_later", "gave_way_unexpected", "killed"]
# With the controls: stock SQLite at FULL, which must lose nothing, and at NORMAL, which must.
IMAGES = ["recordings"] + [f"{who} {what}" for who in ("stock-full", "stock-normal") for what in ("distinct", "bad")]
IMAGES += ["ours-normal bad", "careless-peer bad"]
TARGETS = [f"{target} executions" for target in ("bytes", "insert", "queue_file", "request", "damaged_database", "sql")]


def beside_c() -> list[Entry]:
    """What is played once more with every second writer a C program."""
    entries = [
        Entry("kill", {"deaths": 25_000, "at *": 50}, DEATHS, ("--rounds", 10)),
        Entry("black-box", {"committed": 5_000_000}, ["conflicts", "unknown", "killed"], ("--transactions", 75_000)),
        Entry("environment --case fork", {"rounds": 100}, ["forks", *ERRORS], ("--rounds", 10)),
        Entry("full --pages 0 --bytes 0", {"rounds": 50}, ERRORS, ("--rounds", 5)),
        Entry("full --rounds 0 --bytes 0", {"pages": 256}, ERRORS, ("--pages", 64), "--from-page"),
        Entry("full --rounds 0 --pages 0", {"bytes": 2177}, ERRORS, ("--bytes", 200), "--from-byte"),
    ]
    for entry in entries:
        entry.words += f" --writer {WRITER}"
    return entries


def entries() -> list[Entry]:
    """All of them, in the order of slices while all are equally far. A test compares what the program itself counts."""

    def rounds(count: int) -> tuple[str, int]:
        return ("--rounds", count)

    def calls(scene: str, number: int) -> Entry:
        return Entry(f"nth-call --scene {scene}", {"reached": number}, CALLS, ("--seconds", 25), "--from-case")

    def cuts(words: str, number: int, must_lose: bool = False) -> Entry:
        return Entry(words, {"cuts": number}, CUTS, ("--cuts", 10), "--from-cut", must_lose=must_lose)

    def contract(case: str, count: int, figure: str, number: int, beside: list[str]) -> Entry:
        return Entry(f"contract --case {case}", {figure: number}, beside, rounds(count))

    return [
        Entry("planted", {"planted": 12}, ["caught"]),
        Entry("planted-images", {"planted": 7}, ["caught"]),
        Entry("kill", {"deaths": 250_000, "at *": 500}, DEATHS, rounds(10)),
        Entry("kill --hammer", {"deaths": 25_000}, DEATHS, rounds(6)),
        Entry("isolation", {"checked": 500_000_000}, ["results", "conflicts", "unknown", "killed"], ("--transactions", 300_000)),
        Entry("black-box", {"committed": 20_000_000}, ["conflicts", "unknown", "killed"], ("--transactions", 75_000)),
        contract("polling", 12, "polled", 1_000_000, ["polled_of_the_shell"]),
        contract("lastrowid", 9, "children", 10_000_000, ["deleted_queue_files"]),
        contract("checkpoint", 24, "beside_checkpoints", 1_000_000, ["checkpoints"]),
        contract("readers", 36, "beside_readers", 1_000_000, ["lingered"]),
        contract("turns", 12, "turns", 10_000_000, []),
        contract("hot-rows", 12, "counted", 10_000_000, GAVE_WAY),
        Entry("images", {"distinct": 5_000_000, "cut_again": 200_000}, IMAGES, ("--images", 12_000), "--from-recording"),
        calls("work", 30_000),
        calls("wal", 15_000),
        calls("leader", 10_000),
        calls("queue-file", 5_000),
        cuts("power-cut", 10_000),
        cuts("power-cut --stock FULL", 200),
        cuts("power-cut --stock NORMAL", 200, must_lose=True),
        Entry("full --pages 0 --bytes 0", {"rounds": 50}, ERRORS, rounds(5)),
        Entry("full --rounds 0 --bytes 0", {"pages": 256}, ERRORS, ("--pages", 64), "--from-page"),
        # The header of the WAL, and four frames.
        Entry("full --rounds 0 --pages 0", {"bytes": 2177}, ERRORS, ("--bytes", 200), "--from-byte"),
        *(Entry(f"environment --case {case}", {"rounds": 100}, ERRORS, rounds(10)) for case in ("clock", "descriptors", "memory", "namespaces")),
        Entry("environment --case fork", {"rounds": 100}, ["forks", *ERRORS], rounds(4)),
        Entry("hostile", {"rounds": 200}, ATTACKS, rounds(8)),
        Entry("hostile --aimed", {"rounds": 20}, ATTACKS, rounds(8)),
        Entry("stopped", {"rounds": 100}, ["timeouts", "latest_ms"], rounds(3)),
        # The first one builds the targets.
        Entry("fuzz", {"executions": 1_000_000_000}, TARGETS, ("--passes", 1), "--from-pass", seeded=False, patience=3600),
        Entry("opening --processes 1000", {"rounds": 10}, ["processes"], rounds(1)),
        Entry("stock --checkpointer", {"rounds": 20}, ["writes", "acknowledged"], rounds(1)),
        *beside_c(),
        # The calls of the library in the place of libsqlite3, of some 150 a round.
        Entry("oracle", {"calls": 10_000_000}, ["rounds", "agreed", "ended_early"], rounds(3000)),
        Entry("oracle --planted", {"planted": 8}, ["caught"]),
        Entry("memory", {"writes": 200_000}, ["connection_kb", "queue_file_bytes", "wal_bytes_max"]),
        # An instance is explored whole.
        Entry("model --set large", {"instances": 7}, ["states"], ("--instances", 1), "--from-instance", seeded=False, patience=3600),
        # Each is tried with several methods and seeds, some of which hang.
        Entry("planted-bugs", {"planted": 84}, ["caught"], ("--bugs", 2), "--from-bug", patience=3600),
    ]


class Results:
    """The lines of all slices. What is no line of a slice, lines of earlier versions among it, is passed over."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[dict[str, Any]]:
        lines = self.path.read_text(errors="replace").splitlines() if self.path.exists() else []
        return [row for row in map(parsed, lines) if row]

    def append(self, row: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def parsed(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
        return row if {"command", "seed", "from", "next", "figures", "findings", "unix_s", "seconds"} <= row.keys() else None
    except (AttributeError, json.JSONDecodeError):
        return None


class Standing:
    """How far an entry is: the sums of its slices."""

    def __init__(self, entry: Entry, seed: int, rows: list[dict[str, Any]]) -> None:
        self.entry = entry
        self.start = 0
        """Where the next slice begins."""
        self.slices: list[dict[str, Any]] = []
        self.findings: list[tuple[dict[str, Any], dict[str, str]]] = []
        """With the slices that they are of."""
        self.sums: dict[str, int] = {}
        own = shape(entry.command(seed, 0))
        others: list[dict[str, Any]] = []
        for row in rows:
            if shape(row["command"].split()) == own and (row["seed"] == seed or not entry.seeded):
                # None that began before the end of an earlier one: nothing is counted twice.
                if row["from"] < self.start or row["next"] == row["from"]:
                    others.append(row)
                else:
                    self.add(row)
        self.findings = [(row, finding) for row in self.slices + others for finding in row["findings"]]

    def add(self, row: dict[str, Any]) -> None:
        self.start = row["next"]
        self.slices.append(row)
        for name, figure in row["figures"].items():
            so_far = self.sums.get(name, 0)
            self.sums[name] = max(so_far, figure) if name.endswith(GREATEST) else so_far + figure

    def count(self, goal: str) -> tuple[int, str]:
        """What was counted for a goal, and the figure that says so."""
        if not goal.endswith("*"):
            return self.sums.get(goal, 0), goal
        return min(((count, name) for name, count in self.sums.items() if name.startswith(goal[:-1])), default=(0, goal[:-1]))

    def shares(self) -> list[float]:
        return [min(self.count(goal)[0] / number, 1.0) for goal, number in self.entry.goals.items()]

    def mean_share(self) -> float:
        """How far it is on the whole. A goal that is hard to come to does not keep the other entries waiting."""
        return sum(self.shares()) / len(self.shares())

    def is_complete(self) -> bool:
        return min(self.shares()) >= 1.0


def shape(words: list[str]) -> list[str]:
    """The words of a command that are no numbers: slices of one entry differ in these."""
    return [word for word in words if not word.isdigit()]


def play(program: Path, standing: Standing, seed: int, results: Results, patience: int) -> str | None:
    """Plays the next slice of an entry. Afterwards the results have what it counted; the reason is returned if another one is of no use now."""
    words = standing.entry.command(seed, standing.start)
    command, before, began = " ".join(words), len(results.read()), time.time()
    code, told = run(program, words, results.path, patience)
    own = [row for row in results.read()[before:] if row["command"] == command]
    counted = own[-1] if own else None
    lines = told.splitlines()
    for line in lines:
        if line.startswith(("FINDING ", "replay: ", "kept")):
            print(line)
    last = lines[-1] if lines else ""
    how = f"did not end within {patience} s, and was killed" if code is None else f"ended with {code}"

    def say(what: str) -> None:
        """What has to be said of a slice that has not said it itself."""
        print(f"FINDING {what}\nreplay: reliability {command}")
        findings = [*([] if counted else findings_in(lines)), {"what": what, "replay": command}]
        where = {"campaign": words[0], "command": command, "seed": seed, "commit": COMMIT, "machine": machine(), "unix_s": int(time.time())}
        place = {"seconds": round(time.time() - began, 1), "from": standing.start, "next": standing.start, "figures": {}}
        results.append(where | place | {"findings": findings})

    if counted is None and code == 0:
        # For example where only root can do it.
        return f"cannot be done here: {last}"
    if counted is None:
        say(f"the slice {how} and has counted nothing: {last}")
        return "a slice broke off"
    print(f"{command}: {counted['seconds']:.0f} s, next {counted['next']}, {len(counted['findings'])} findings", flush=True)
    if code != 0 and not counted["findings"]:
        say(f"the slice {how}, and had told no finding")
    if standing.entry.slice is None:
        return "has run"
    return None if counted["next"] > standing.start and code is not None else "a slice did not go on"


def run(program: Path, words: list[str], results: Path, patience: int) -> tuple[int | None, str]:
    """Runs the program, in a group of processes of its own; how it ended, and all that it said. A slice ends with its stdin, and so with this script,
    and takes its processes and directories with it."""
    with tempfile.TemporaryFile() as output:
        slice_ = subprocess.Popen(
            [program, "--slice", *words, "--json", results], stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
        )
        assert slice_.stdin is not None
        try:
            code: int | None = slice_.wait(patience)
        except subprocess.TimeoutExpired:
            code = None
            slice_.stdin.close()
            try:
                slice_.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(slice_.pid, signal.SIGKILL)
                slice_.wait()
        output.seek(0)
        return code, output.read().decode(errors="replace")


def findings_in(lines: list[str]) -> list[dict[str, str]]:
    """The findings that a slice printed; each has the replay line that comes next."""
    found = []
    for place, line in enumerate(lines):
        if line.startswith("FINDING "):
            replay = next((it for it in lines[place:] if it.startswith("replay: reliability ")), "")
            found.append({"what": line.removeprefix("FINDING "), "replay": replay.removeprefix("replay: reliability ")})
    return found


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")
    return f"{model}, {len(os.sched_getaffinity(0))} cores, Linux {os.uname().release}"


def page(options: argparse.Namespace, standings: list[Standing], ended: dict[str, str]) -> str:
    slices = [row for standing in standings for row in standing.slices]
    hours = sum(row["seconds"] for row in slices) / 3600
    period = ""
    if slices:
        first, last = (day(pick(row["unix_s"] for row in slices)) for pick in (min, max))
        period = f", {first} to {last}; {'; '.join(sorted({row['machine'] for row in slices}))}"
    complete = sum(standing.is_complete() for standing in standings)
    lines = [
        "# The long column, as far as it is",
        "",
        "`make campaign` writes this page: it plays every campaign in slices, the one that is least far first, until each has",
        "its number, and goes on where it ended, on whichever day. [campaigns.jsonl](campaigns.jsonl) has a line for each slice.",
        "",
        f"Seed {options.seed}; {len(slices)} slices, {hours:.2f} hours{period}. {complete} of {len(standings)} entries have their numbers.",
        *([f"The numbers are those of the long column, divided by {options.part}."] if options.part > 1 else []),
        "",
        "| `reliability` | so far, of the long column's number | share | beside it | findings | slices | s | commits |",
        "|---|---|---|---|---|---|---|---|",
        *map(table_row, standings),
    ]
    all_of_them = [found for standing in standings for found in standing.findings]
    lines += ["", "## Findings", *(told([it for it in all_of_them if is_ours(it[0])]) or ["None."])]
    if others := told([it for it in all_of_them if not is_ours(it[0])]):
        lines += ["", "## Findings of other commits", *others]
    if left_out := [f"* `{words}`: {reason}" for words, reason in sorted(ended.items()) if reason.startswith("cannot")]:
        lines += ["", "## Left out", *left_out]
    return "\n".join(lines) + "\n"


def table_row(standing: Standing) -> str:
    goals = []
    for goal, number in standing.entry.goals.items():
        count, figure = standing.count(goal)
        if goal.endswith("*"):
            points = sum(name.startswith(goal[:-1]) for name in standing.sums)
            goals.append(f"least {spaced(figure).strip()} of all {points}: {count:,} of {number:,}")
        else:
            goals.append(f"{count:,} of {number:,} {spaced(figure)}")
    beside = [f"{standing.sums[name]:,} {spaced(name)}" for name in standing.entry.beside if name in standing.sums]
    commits = sorted({row["commit"] for row in standing.slices if row.get("commit")})
    cells = [
        f"`{standing.entry.words}`",
        "; ".join(goals),
        percent(min(standing.shares())),
        ", ".join(beside),
        str(len(standing.findings)),
        str(len(standing.slices)),
        f"{sum(row['seconds'] for row in standing.slices):.0f}",
        ", ".join(commits),
    ]
    return f"| {' | '.join(cells)} |"


def told(findings: list[tuple[dict[str, Any], dict[str, str]]]) -> list[str]:
    lines = []
    for row, finding in findings:
        what = " ".join(finding["what"].split())[:WORDS_MAX]
        commit = row.get("commit") or "not told"
        lines += [f"* {day(row['unix_s'])}, commit {commit}, `{row['command']}`: {what}", f"  Replay: `reliability {finding['replay']}`"]
    return lines


def is_ours(row: dict[str, Any]) -> bool:
    """What was found in another commit may be fixed since."""
    return row.get("commit") == COMMIT


def spaced(name: str) -> str:
    return name.replace("_", " ")


def percent(share: float) -> str:
    """Down to one in a million, and never 100 % before all is there."""
    value = share * 100
    if value >= 10:
        return f"{int(value)} %"
    return f"{value:.2f} %" if value >= 0.1 else f"{value:.4f} %"


def day(unix_s: int) -> str:
    return datetime.datetime.fromtimestamp(unix_s, datetime.timezone.utc).date().isoformat()


def write(path: Path, text: str) -> None:
    half = path.with_suffix(".half")
    half.write_text(text)
    half.replace(path)


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", type=Path, default=Path("target/release/reliability"))
    parser.add_argument("--seconds", type=int, help="no slice begins after this many; otherwise it ends when all entries have their numbers")
    parser.add_argument("--results", type=Path, default=Path("docs/reliability/campaigns.jsonl"), help="lines are only added, and those that are there count")
    parser.add_argument("--page", type=Path, default=Path("docs/reliability/campaign.md"), help="is written after each slice")
    parser.add_argument("--seed", type=int, default=1, help="another seed is another column")
    parser.add_argument("--only", action="append", choices=[entry.words for entry in entries()], metavar="ENTRY", help='for example "kill --hammer"')
    parser.add_argument("--part", type=int, default=1, help="only a part: the numbers, and those of a slice, divided by so much")
    parser.add_argument("--patience", type=int, help="seconds after which a slice hangs, instead of each entry's own")
    return parser.parse_args(arguments)


def main() -> int:
    """Plays slices. Fails when there is a finding of this commit."""
    options = options_of(None)
    began, results = time.monotonic(), Results(options.results)
    chosen = [entry for entry in entries() if not options.only or entry.words in options.only]
    for entry in chosen:
        entry.part(options.part)
    # Entries that get no more slices in this run, with the reason.
    ended: dict[str, str] = {}
    if os.geteuid() != 0:
        ended = {entry.words: "cannot be done here: it needs root" for entry in chosen if entry.words.startswith(NEED_ROOT)}
    while True:
        rows = results.read()
        standings = [Standing(entry, options.seed, rows) for entry in chosen]
        write(options.page, page(options, standings, ended))
        in_time = options.seconds is None or time.monotonic() - began < options.seconds
        left = [standing for standing in standings if not standing.is_complete() and standing.entry.words not in ended]
        if not left or not in_time:
            break
        standing = min(left, key=Standing.mean_share)
        if reason := play(options.program, standing, options.seed, results, options.patience or standing.entry.patience):
            print(f"{standing.entry.words}: {reason}")
            ended[standing.entry.words] = reason
    findings = sum(is_ours(row) for standing in standings for row, _ in standing.findings)
    print(f"{sum(standing.is_complete() for standing in standings)} of {len(standings)} entries have their numbers; {findings} findings")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
