"""The examples under load, beside stock SQLite in the same run: over HTTP, and by many processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import flagship  # noqa: E402
import jobs  # noqa: E402
import load  # noqa: E402
import storm  # noqa: E402


def test_a_storm_of_processes(tmp_path: Path) -> None:
    ours = storm.storm("manyhands", str(tmp_path / "ours.db"), processes=100, rounds=5)
    stock = storm.storm("sqlite3", str(tmp_path / "stock.db"), processes=20, rounds=5)
    print(ours, stock, sep="\n")
    assert (ours["errors"], ours["rows"]) == (0, 500)


def test_each_job_is_claimed_once(tmp_path: Path) -> None:
    done = jobs.run(str(tmp_path / "jobs.db"), workers=8, jobs=300)
    print(done)
    assert (done["done"], done["left"], done["failed_workers"]) == (300, 0, 0)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_django_under_gunicorn(tmp_path: Path, method: str) -> None:
    """No request fails and none is lost, in the default mode and with the middleware; with stock, many fail."""
    measured = {
        variant: flagship.measure(str(tmp_path), variant, clients=16, requests=10, method=method)
        for variant in ("stock", "manyhands", "manyhands, RetryMiddleware")
    }
    print(*measured.values(), sep="\n")
    for variant in ("manyhands", "manyhands, RetryMiddleware"):
        ours = measured[variant]
        assert (ours["failures"], ours["counter"], ours["visits"]) == (0, 160, 160), ours
    # Otherwise the load shows nothing.
    assert measured["stock"]["failures"] > 0


def test_fastapi_and_sqlalchemy_under_uvicorn(tmp_path: Path) -> None:
    measured = {}
    for driver in ("pysqlite", "manyhands"):
        environ = {"DATABASE_URL": f"sqlite+{driver}:///{tmp_path / driver}.db"}
        with load.server(load.uvicorn("fastapi_app:app"), environ, tmp_path / f"{driver}.log") as port:
            before = load.ask(port, "/report")
            clients = [[("POST", f"/order/1?customer={n}", None)] * 10 for n in range(16)]
            measured[driver] = {**load.load(port, clients), **load.ask(port, "/report")}
        assert before["orders"] == 0
    print(*measured.items(), sep="\n")
    ours = measured["manyhands"]
    assert (ours["failures"], ours["orders"], ours["in_stock"]) == (0, 160, 1_000_000 - 160), ours
