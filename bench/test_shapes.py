"""Each shape does what it says, with both modules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from shapes import MODULES, SHAPES, Shape, measure

SECONDS = 0.05
INSERT = next(shape for shape in SHAPES if shape.name == "INSERT, commit")


@pytest.mark.parametrize("engine", MODULES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.label)
def test_the_file_has_what_was_acknowledged(shape: Shape, engine: str, tmp_path: Path) -> None:
    measured, check = measure(shape, MODULES[engine], tmp_path, SECONDS)
    assert check == "ok" and measured is not None and measured["acknowledged"] > 0, measured
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_is_missing_has_no_figure(tmp_path: Path) -> None:
    measured, check = measure(replace(INSERT, adds=2), MODULES["stock"], tmp_path, SECONDS)
    assert measured is None and "acknowledged" in check


def test_a_process_that_dies_has_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shapes.HANGS_AFTER_S", 0.5)
    measured, check = measure(replace(INSERT, act=lambda _: exit(1)), MODULES["stock"], tmp_path, SECONDS)
    assert measured is None and "did not report" in check


def test_labels_tell_shapes_apart() -> None:
    """The table has a line for each."""
    assert len({shape.label for shape in SHAPES}) == len(SHAPES)
