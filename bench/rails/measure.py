"""Measures a small site on Rails, on Manyhands and on stock SQLite: the tables of the talk "SQLite on Rails".

    python bench/rails/measure.py RESULTS.jsonl [--seconds 30] [--chroot FOLDER] [--gem FOLDER] [--engines …] [--actions …] [--users 1,4,8,16] …

Each *cell* is one configuration of Puma, one engine, one action and so many users at once, and becomes one JSON line. The users are
`http-load`'s: each sends its next request when it has the answer. In the cells with a rate, requests are due at fixed times instead.
`posts#index` is measured alone and beside 16 writers.

Afterwards the standard module looks into the file: as many rows must have been added as were acknowledged, or the cell has failed. A request without an
answer may have added one more. Lines are only added: cells that RESULTS.jsonl already has are not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

from site_under_load import ENGINES, ROOT, Engine, Ground, Site, copy, seed

HTTP_LOAD = ROOT / "target/release/manyhands-http-load"
ACTIONS = {"posts#create": ("POST", "/posts"), "comments#create": ("POST", "/comments"), "posts#index": ("GET", "/posts")}
WRITERS = 16
READERS = 2
WARM_UP_SECONDS = 0.5
PORT = 3900


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--seconds", type=float, default=30, help="of each cell")
    parser.add_argument("--patience", type=float, default=60, help="seconds after which a request counts as not answered")
    parser.add_argument("--chroot", type=Path, help="where Ruby and Rails are, if not here")
    parser.add_argument("--gem", default=str(ROOT / "bindings/ruby/lib"), help="the folder of the gem's lib, built for that Ruby")
    parser.add_argument("--engines", default=",".join(engine.name for engine in ENGINES))
    parser.add_argument("--actions", default="posts#create,comments#create,posts#index")
    parser.add_argument("--users", default="1,4,8,16")
    parser.add_argument("--shapes", default="4x3,1x8", help="processes and threads of Puma")
    parser.add_argument("--pauses", default="0,1", help="milliseconds that a transaction waits, as if for a file")
    parser.add_argument("--again", action="store_true", help="measure also what RESULTS.jsonl has already: the page takes the median")
    parser.add_argument("--rate", type=float, default=100, help="requests per second of the cells that have a rate; 0 for no such cells")
    options = parser.parse_args()
    engines = chosen_engines(options.engines)
    ground = Ground(options.chroot, options.gem)
    folder = options.results.parent.resolve() / "rails-databases"
    folder.mkdir(parents=True, exist_ok=True)
    seeded = folder / f"seeded-{options.chroot.name if options.chroot else 'here'}.sqlite3"
    seed(ground, seeded)
    circumstances = {**circumstances_here(), **ground.circumstances()}
    measured = {cell_name(json.loads(line)) for line in options.results.read_text().splitlines()} if options.results.exists() and not options.again else set()
    failed = False
    for shape in options.shapes.split(","):
        workers, threads = (int(number) for number in shape.split("x"))
        for pause in options.pauses.split(","):
            sites = [
                Site(ground, engine, workers, threads, float(pause), folder / f"{engine.name}.sqlite3", PORT + number)
                for number, engine in enumerate(engines)
            ]
            try:
                for line in measure_in_turns(sites, seeded, options, measured):
                    failed |= line["check"] != "ok"
                    show(line)
                    with options.results.open("a") as file:
                        file.write(json.dumps({"workload": "rails", **line, "circumstances": circumstances}) + "\n")
            finally:
                for site in sites:
                    site.stop()
    return int(failed)


def measure_in_turns(sites: list[Site], seeded: Path, options: argparse.Namespace, measured: set[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Each cell with one engine right after the other: what disturbs one disturbs the others. A site without work does nothing."""
    for cell in cells_of(options):
        for site in sites:
            if cell_name({**cell, **words_of(site)}) in measured:
                continue
            if site.process is None:
                copy(seeded, site.database)
                site.start()
            line = {**words_of(site), **cell, **measure_cell(site, cell, options)}
            if line["figures"]["failures"] or (line["writers_figures"] or {}).get("failures"):
                site.stop()
            yield line


def chosen_engines(names: str) -> list[Engine]:
    known = {engine.name: engine for engine in ENGINES}
    unknown = [name for name in names.split(",") if name not in known]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: no such engine; there are {', '.join(known)}")
    return [known[name] for name in names.split(",")]


def cells_of(options: argparse.Namespace) -> list[dict[str, Any]]:
    actions = options.actions.split(",")
    cells: list[dict[str, Any]] = []
    for action in actions:
        if action == "posts#index":
            cells += [{"action": action, "users": READERS, "rate": None, "writers": writers} for writers in (0, WRITERS)]
        else:
            cells += [{"action": action, "users": int(users), "rate": None, "writers": 0} for users in options.users.split(",")]
    if options.rate and "posts#create" in actions:
        cells.append({"action": "posts#create", "users": 64, "rate": options.rate, "writers": 0})
    return cells


def words_of(site: Site) -> dict[str, Any]:
    return {"engine": site.engine.name, "shape": f"{site.workers}x{site.threads}", "pause_ms": site.pause_ms}


def cell_name(cell: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(cell[key] for key in ("engine", "shape", "pause_ms", "action", "users", "rate", "writers"))


def measure_cell(site: Site, cell: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    rows_before = site.rows()
    warm_up = finish(load(site.port, cell["action"], cell["users"], WARM_UP_SECONDS, None, options.patience))
    busy_before, began = site.processor_seconds(), time.monotonic()
    writers = load(site.port, "posts#create", cell["writers"], options.seconds, None, options.patience) if cell["writers"] else None
    figures = finish(load(site.port, cell["action"], cell["users"], options.seconds, cell["rate"], options.patience))
    writers_figures = finish(writers) if writers else None
    busy = (site.processor_seconds() - busy_before) / (time.monotonic() - began)
    creates = [warm_up, figures] if cell["action"].endswith("#create") else []
    creates += [writers_figures] if writers_figures else []
    return {
        "figures": {"requests_per_s": figures["good"] / figures["seconds"], **figures},
        "writers_figures": writers_figures,
        "processors_busy": round(busy, 2),
        "load_average": os.getloadavg()[0],
        "check": check(creates, site.rows() - rows_before),
    }


def load(port: int, action: str, users: int, seconds: float, rate: Optional[float], patience: float) -> subprocess.Popen[str]:
    method, path = ACTIONS[action]
    words = [str(HTTP_LOAD), f"127.0.0.1:{port}", method, path, "--users", str(users), "--seconds", str(seconds), "--patience", str(patience)]
    return subprocess.Popen([*words, *(["--rate", str(rate)] if rate else [])], stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = process.communicate()
    if process.returncode != 0:
        raise RuntimeError("http-load has failed")
    figures: dict[str, Any] = json.loads(output)
    return figures


def check(creates: list[dict[str, Any]], added: int) -> str:
    """Whether as many rows were added as were acknowledged."""
    good = sum(figures["good"] for figures in creates)
    unknown = sum(sum(figures["failures"].values()) for figures in creates)
    if good <= added <= good + unknown:
        return "ok"
    return f"{good} rows were acknowledged, {unknown} requests had no answer, and {added} rows were added"


def circumstances_here() -> dict[str, Any]:
    processors = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "command": " ".join(["bench/rails/measure.py", *sys.argv[1:]]),
        "machine": processors[0] if processors else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "commit": os.environ.get("MANYHANDS_COMMIT", ""),
    }


def show(line: dict[str, Any]) -> None:
    figures = line["figures"]
    requests = figures["good"] + figures["bad"]
    shares = f"{figures['bad'] / requests:5.1%} bad" if requests else "no answer"
    print(
        f"{line['shape']} {line['pause_ms']:g} ms  {line['engine']:22} {line['action']:16} {line['users']:2} users"
        f"{' beside ' + str(line['writers']) if line['writers'] else ''}{' at ' + str(line['rate']) + '/s' if line['rate'] else ''}"
        f" {figures['requests_per_s']:7.1f}/s p50 {figures['p50_ms']} p99 {figures['p99_ms']} p99.99 {figures['p9999_ms']} max {figures['max_ms']} ms"
        f" {shares}  {line['processors_busy']:.1f} busy  {line['check']}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
