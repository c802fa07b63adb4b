"""What the READMEs of the project and of the package show, pasted and run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[1]
READMES = [PYTHON.parents[1] / "README.md", PYTHON / "README.md"]
EXAMPLES = [re.findall(r"^```python\n(.*?)^```$", it.read_text(), re.MULTILINE | re.DOTALL) for it in READMES]


def test_the_readmes_have_examples() -> None:
    """The project's of the module and of Django, the package's of the module."""
    assert [len(examples) for examples in EXAMPLES] == [2, 1]


@pytest.mark.parametrize("example", sum(EXAMPLES, []))
def test_an_example_of_a_readme(example: str, tmp_path: Path) -> None:
    """Each in a process of its own, as a reader runs it: Django's settings are a process's."""
    subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=tmp_path, check=True, timeout=60)
