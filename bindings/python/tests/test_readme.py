"""What the README shows, pasted and run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[3] / "README.md"


def test_the_example_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert examples
    monkeypatch.chdir(tmp_path)
    for example in examples:
        exec(compile(example, str(README), "exec"), {"__name__": "readme"})
