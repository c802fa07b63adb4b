"""The page says of several measurements what they say together."""

from __future__ import annotations

from typing import Any

from page import Measured, cell, combined, verdicts


def line(rate: float, histogram: list[list[int]], bad: int = 0, **more: Any) -> dict[str, Any]:
    good = sum(count for _, count in histogram)
    times = {"p50_ms": 1.0, "p99_ms": 2.0, "p9999_ms": 3.0, "max_ms": 4.0}
    figures = {"requests_per_s": rate, "good": good, "bad": bad, "histogram_us": histogram, "seconds": 1.0, "failures": {}, **times}
    place = {"engine": "manyhands-full", "shape": "4x3", "pause_ms": 0.0, "action": "posts#create", "users": 16, "writers": 0, "rate": None}
    return {**place, "check": "ok", "load_average": 1.0, "figures": figures, **more}


def test_rates_are_the_median_and_times_are_put_together() -> None:
    together = combined([line(10, [[1000, 98]]), line(30, [[1000, 1], [5000, 1]]), line(20, [[9000, 100]], bad=50)])["figures"]
    assert (together["requests_per_s"], together["good"], together["bad"]) == (20, 200, 50)
    assert (together["p50_ms"], together["p99_ms"], together["p9999_ms"]) == (5.0, 9.0, 9.0)
    assert combined([line(1, [[1000, 99], [2000, 1]]), line(1, [[1000, 99], [2000, 1]])])["figures"]["p99_ms"] == 1.0


def test_a_cell_that_failed_its_check_has_no_figure() -> None:
    assert cell(combined([line(10, [[1000, 1]]), line(10, [[1000, 1]], check="2 rows are missing")])) == "no figure: 2 rows are missing"
    assert cell(line(10, [[1000, 3]], bad=1)) == "10.0/s<br>1.0 / 2.0 / 3.0<br>**25.0% failed**"


def test_a_loss_is_a_loss() -> None:
    lines = [line(10, [[1000, 1]]), line(20, [[1000, 1]], engine="stock-handler-normal")]
    assert "requests/s of Rails 8's handler at NORMAL | **no** | 0.50x" in verdicts(Measured(lines))
    assert "no request fails | **no** | 1 of 2 |" in verdicts(Measured([line(10, [[1000, 1]], bad=1)]))
