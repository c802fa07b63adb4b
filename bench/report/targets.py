"""What Manyhands set out to reach, and whether these measurements show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterator, Optional

from measurements import OURS, STOCK, WAL_LIMIT_BYTES, Run, Series, Spread

Judged = tuple[str, bool]
"""What was measured, in words, and whether it is enough."""

WAL_SLACK_BYTES = 4 << 20
"""What was in the queue already when the limit was reached, and what lies between two looks of the checkpointer."""


@dataclass(frozen=True)
class Verdict:
    workload: str
    target: str
    measured: str
    met: bool
    why: str
    """Where it is not met: what was measured about the reason."""


@dataclass(frozen=True)
class Target:
    workload: str
    label: Optional[str]
    """The line that it is about; `None`: the last; empty: all of them."""
    text: str
    judge: Callable[[Run, str], Optional[Judged]]
    """`None` where something that it takes was not measured."""
    why: str = ""
    """The reason, in words, if it is not met."""


def share(spread: Spread) -> str:
    return f"{spread.median:.2f}x ({spread.least:.2f} to {spread.most:.2f})"


def times(least: float, to: str = STOCK, ours: str = OURS) -> Callable[[Run, str], Optional[Judged]]:
    """Commits per second, relative to another engine's."""

    def judge(run: Run, label: str) -> Optional[Judged]:
        ratio = run.ratio(ours, label, to)
        return (share(ratio), ratio.median >= least) if ratio else None

    return judge


def figure(pick: str, write: Callable[[float], str], enough: Callable[[float], bool]) -> Callable[[Run, str], Optional[Judged]]:
    """One figure of ours."""

    def judge(run: Run, label: str) -> Optional[Judged]:
        spread = (series := run.of(OURS, label)) and series.spread(pick)
        return (write(spread.median), enough(spread.median)) if spread else None

    return judge


def milliseconds(value: float) -> str:
    return f"{value / 1e3:.2f} s" if value >= 1e3 else f"{value:.3g} ms"


def memory_of_a_connection(run: Run, label: str) -> Optional[Judged]:
    """What each thread's connection adds to the process, in use: an idle one has no more."""
    first, last = run.of(OURS, run.labels[0]), run.of(OURS, label)
    one, many = first and first.spread("rss_peak_bytes_max"), last and last.spread("rss_peak_bytes_max")
    if not first or not last or not one or not many:
        return None
    more = last.task["threads"] - first.task["threads"]
    each = (many.median - one.median) / more if more else 0.0
    return (f"{each / 1e6:.2f} MB", each <= 2e6) if more else None


def no_conflict(run: Run, label: str) -> Optional[Judged]:
    conflicts = (series := run.of(OURS, label)) and series.spread(lambda figures: float(figures["effort"]["conflicts"]))
    return (f"{conflicts.most:.0f} conflicts of any kind", conflicts.most == 0) if conflicts else None


def nothing_refused(run: Run, label: str) -> Optional[Judged]:
    series = run.of(OURS, label)
    return (f"{series.errors} refused", series.errors == 0) if series and series.figures else None


def p99_of_stock_normal(run: Run, label: str) -> Optional[Judged]:
    pair = both(run, label, "stock-normal", "p99_ms")
    return pair and (f"{milliseconds(pair[0])} and {milliseconds(pair[1])}", pair[0] <= 0.1 * pair[1])


def memory_of_a_process(run: Run, label: str) -> Optional[Judged]:
    """What each process has more than one with stock SQLite; a page that several have counts in parts."""
    ours, theirs = run.of(OURS, label), run.of(STOCK, label)
    one, two = ours and ours.known("memory_bytes"), theirs and theirs.known("memory_bytes")
    if not ours or not one or not two:
        return None
    each = (one.median - two.median) / ours.processes
    return f"{each / 1e6:+.2f} MB, {one.median / ours.processes / 1e6:.1f} in all", each <= 5e6


def memory_over_stock(run: Run, label: str) -> Optional[Judged]:
    pair = both(run, label, "stock-normal", "memory_bytes")
    return pair and (f"{(pair[0] - pair[1]) / 1e6:+.0f} MB", pair[0] - pair[1] <= 50e6)


def both(run: Run, label: str, other: str, what: str) -> Optional[tuple[float, float]]:
    ours, theirs = run.of(OURS, label), run.of(other, label)
    one, two = ours and ours.spread(what), theirs and theirs.spread(what)
    return (one.median, two.median) if one and two else None


def best_peer(run: Run, label: str) -> Optional[Judged]:
    peers = [engine for engine in run.engines if not engine.startswith((OURS, STOCK))]
    ratios = [(ratio, engine) for engine in peers if (ratio := run.ratio(OURS, label, engine))]
    if not ratios:
        return None
    ratio, engine = min(ratios, key=lambda it: it[0].median)
    return f"{share(ratio)}, {engine}", ratio.median > 2


def beside_the_long_job(run: Run, label: str) -> Optional[Judged]:
    alone, beside = run.of(OURS, run.labels[0]), run.of(OURS, label)
    one, two = alone and alone.spread("p99_ms"), beside and beside.spread("p99_ms")
    if not one or not two:
        return None
    return f"{milliseconds(one.median)} alone, {milliseconds(two.median)} beside", two.median <= 2 * one.median


def bounded_wal(run: Run, label: str) -> Optional[Judged]:
    limited = run.of("manyhands-wal-limit", label)
    if limited is None or not limited.figures:
        return None
    longest = max(longest_wal(limited), default=0)
    named = all((figures.get("reader") or {}).get("named") for figures in limited.figures)
    text = f"{longest / 1e6:.0f} MB at a limit of {WAL_LIMIT_BYTES / 1e6:.0f} MB, the reader's process {'' if named else 'not '}named"
    return text, longest <= WAL_LIMIT_BYTES + WAL_SLACK_BYTES and named


def longest_wal(series: Series) -> Iterator[int]:
    for figures in series.figures:
        yield max((bytes_ for _, bytes_, _ in figures["wal"]), default=0)


def nowhere_below(least: float) -> Callable[[Run, str], Optional[Judged]]:
    """Commits per second relative to stock SQLite's, at the line where they are fewest."""

    def judge(run: Run, _label: str) -> Optional[Judged]:
        ratios = [(ratio, label) for label in run.labels if (ratio := run.ratio(OURS, label))]
        if not ratios:
            return None
        ratio, label = min(ratios, key=lambda it: it[0].median)
        below = sum(it.median < least for it, _ in ratios)
        return f"{below} of {len(ratios)} are below, the lowest: {share(ratio)}, {label}", below == 0

    return judge


NONE_AGAIN = figure("retries_per_100", lambda value: f"{value:.3g} retries per 100", lambda value: value == 0)
LEAST_SERVED = figure("share_least", lambda value: f"{value:.2f} of the mean", lambda value: value >= 0.5)

IDLE = "who is woken starts on the processor where it slept, also when the other one is idle, and waits there behind the others"
QUEUE = "who is alone pays for the look at the queue and gains nothing from it"
REPLAY = "a row costs 6,100 instructions on a fork and 4,300 in stock SQLite (callgrind), and once more where others have committed meanwhile; " + IDLE
CROWD = (
    "a commit has only a small part of a sync left to wait for: the wait is one for a processor, among a thousand processes, "
    "and what the figures here leave of the processors goes into switching between them"
)

TARGETS = [
    Target("storm", None, "10 times stock SQLite's writes/s", times(10), CROWD),
    Target("storm", None, "no write is refused", nothing_refused),
    Target("storm", None, "p99.9 below 50 ms", figure("p999_ms", milliseconds, lambda value: value < 50), CROWD),
    Target("storm-python", None, "10 times stock SQLite's writes/s", times(10), CROWD),
    Target("storm-python", None, "no write is refused", nothing_refused),
    Target("storm-python", None, "p99.9 below 500 ms", figure("p999_ms", milliseconds, lambda value: value < 500), CROWD),
    Target("storm-python", None, "at most 5 MB of memory more for each process", memory_of_a_process),
    Target("storm-python", None, "longest below 2 s", figure("max_ms", milliseconds, lambda value: value < 2000), CROWD),
    Target("threads-alone", "1 thread", "0.95 times stock SQLite: an idle queue costs nothing", times(0.95), QUEUE),
    Target("threads-normal", "1 thread", "0.95 times stock SQLite, both at NORMAL", times(0.95, "stock-normal", "manyhands-normal"), QUEUE),
    Target("threads", "8 threads", "2.5 times stock SQLite", times(2.5), IDLE),
    Target("threads", "64 threads", "7 times stock SQLite", times(7), IDLE),
    Target("threads", "64 threads", "more than stock SQLite at NORMAL with a mutex", times(1, "stock-mutex-normal"), IDLE),
    Target("threads", "256 threads", "10 times stock SQLite", times(10), IDLE),
    Target("threads", "256 threads", "more than stock SQLite at NORMAL with a mutex", times(1, "stock-mutex-normal"), IDLE),
    Target("threads", "64 threads", "no write is refused", nothing_refused),
    Target("threads", "256 threads", "no write is refused", nothing_refused),
    Target("threads", "256 threads", "p99.9 below 100 ms", figure("p999_ms", milliseconds, lambda value: value < 100), IDLE),
    Target("threads", "64 threads", "the least-served thread has half of the mean", LEAST_SERVED),
    Target("threads", "256 threads", "the least-served thread has half of the mean", LEAST_SERVED),
    Target("threads", "256 threads", "at most 2 MB of memory for a connection", memory_of_a_connection),
    Target("clients", "8 processes x 1000 clients", "at FULL twice what stock SQLite does at NORMAL", times(2, "stock-normal"), IDLE),
    Target("clients", "8 processes x 1000 clients", "p99 a tenth of that of stock SQLite", p99_of_stock_normal, IDLE),
    Target("clients", "8 processes x 1000 clients", "at most 50 MB of memory more", memory_over_stock),
    Target("counter", "64 writers", "8 times stock SQLite", times(8), IDLE),
    Target("counter", "64 writers", "nothing is run again by the application", NONE_AGAIN),
    Target("counter-in-transaction", "64 writers, BEGIN", "8 times stock SQLite", times(8), IDLE),
    Target("counter-in-transaction", "64 writers, BEGIN", "nothing is run again by the application", NONE_AGAIN),
    Target("think", "no think, 8 threads", "1.5 times stock SQLite", times(1.5), REPLAY),
    Target("think", "1000 us busy, 8 threads", "1.8 times stock SQLite (2 cores allow 2.4)", times(1.8), REPLAY),
    Target("think", "1000 us waiting, 8 threads", "5 times stock SQLite", times(5), REPLAY),
    Target("think", "1000 us waiting, 16 threads", "8 times stock SQLite", times(8), REPLAY),
    Target("think", "1000 us waiting, 8 threads", "more than twice the best peer", best_peer, REPLAY),
    Target("think", "1000 us waiting, 16 threads", "more than twice the best peer", best_peer, REPLAY),
    Target(
        "transfer",
        "10000 accounts, 200 us waiting, 8 threads",
        "1.2 times Turso, strictly serializable",
        times(1.2, "turso"),
        "snapshot isolation does not ask whether what a transaction read is still so, and needs no second execution",
    ),
    Target("transfer", "100 accounts, 200 us busy, 8 threads", "not less than stock SQLite: optimism is no loss", times(1), REPLAY),
    Target("orm", "8 threads", "3 times stock SQLite", times(3), IDLE),
    Target("orm", "64 threads", "3 times stock SQLite", times(3), IDLE),
    Target("orm", "64 threads", "no conflict that is only about new ids", no_conflict),
    Target("shapes", "", "no shape below 0.95 times stock SQLite", nowhere_below(0.95)),
    Target("mixed", None, "the short writers' p99 at most twice that without the long job", beside_the_long_job, IDLE),
    Target("endless-reader", None, "the WAL is bounded by policy, and the reader named", bounded_wal),
]


def verdicts(runs: list[Run]) -> list[Verdict]:
    """All targets that these runs can tell about, in the order of the runs."""
    found = []
    for run in runs:
        told = set()
        for target in TARGETS:
            label = run.labels[-1] if target.label is None else target.label
            if target.workload != run.name or label not in (*run.labels, ""):
                continue
            if judged := target.judge(run, label):
                measured, met = judged
                # What several have in common is said once.
                reason = "" if target.why in told else target.why
                why = "" if met else ". ".join(it for it in (capital(reason), spent(run, label)) if it)
                told |= set() if met else {target.why}
                found.append(Verdict(run.name, f"{label}: {target.text}" if label else target.text, measured, met, why))
    return found


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def spent(run: Run, label: str) -> str:
    """What a commit cost ours and the baseline, from the same measurements."""
    parts = []
    for engine in (run.ours, run.baseline):
        series = run.of(engine, label)
        cpu = series and series.spread(lambda figures: figures["cpu_s"] / max(figures["acknowledged"], 1))
        busy = series and series.spread(lambda figures: figures["cpu_s"] / figures["seconds"] / run.circumstances["cores"])
        if not series or not cpu or not busy:
            continue
        syncs = series.known("syncs_per_commit")
        each = f"{cpu.median * 1e6:,.0f} us of a processor" + (f" and {syncs.median:.2g} sync{'s' * (f'{syncs.median:.2g}' != '1')}" if syncs else "")
        parts.append(f"{engine} {each} for each commit, the processors {min(busy.median, 1):.0%} busy")
    return f"Here {'; '.join(parts)}." if parts else ""
