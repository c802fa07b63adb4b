from __future__ import annotations

from pathlib import Path
from typing import Iterator

import pytest

import manyhands


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def connection(path: Path) -> Iterator[manyhands.Connection]:
    """In autocommit mode, for any thread."""
    connection = manyhands.connect(path, isolation_level=None, check_same_thread=False)
    yield connection
    connection.close()
