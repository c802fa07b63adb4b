"""Programs that know nothing of Manyhands write one file at once, through their own drivers, and none is told that the database is locked.

Each is started with the library preloaded, and with nothing else changed: what it says to have done is in the file, no more and no less.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from crowd import DRIVERS, JOBS, PACKAGED, Driver, library, run_crowd

PROCESSES = 4
SECONDS = 1


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("driver", PACKAGED, ids=lambda driver: driver.name)
def test_each_driver_keeps_its_promises(driver: Driver, job: str, tmp_path: Path) -> None:
    command = driver.command()
    assert command, f"please install {driver.interpreter}"
    outcome = run_crowd(command, library("manyhands"), job, PROCESSES, SECONDS, tmp_path / "crowd.db")
    assert not outcome.broken
    assert outcome.errors == 0, outcome.first_error
    assert outcome.done >= PROCESSES


def test_a_crowd_that_does_not_use_the_library_is_no_measurement(tmp_path: Path) -> None:
    python = next(driver for driver in DRIVERS if driver.name == "python-sqlite3").command()
    assert python
    with pytest.raises(ChildProcessError, match="is not loaded"):
        run_crowd(python, tmp_path / "absent.so", "insert", 1, 0.1, tmp_path / "crowd.db")
