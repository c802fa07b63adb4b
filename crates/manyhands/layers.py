"""Checks that imports go downward only: `python3 layers.py` in this directory.

A folder of src/ may import those below it, itself, and the files beside the folders, which import none of them. In the fence
around SQLite, a file of the folder vfs/ may import those that vfs.rs names after it: its `mod` lines are in reading order.
"""

import re
import sys
from pathlib import Path

# From the doors down. `fuzzing` plays the part of an application, and of a damaged queue.
LAYERS = ["fuzzing", "aio", "driver", "database", "connection", "transaction", "commit", "session", "statement"]
# What lib.rs re-exports at the root, and where it is.
AT_ROOT = {"Connection": "connection", "Database": "database", "Transaction": "connection"}
IMPORT = re.compile(r"\bcrate::(\{[^}]*\}|\w+)")


def height(module: str) -> int:
    return len(LAYERS) - LAYERS.index(module) if module in LAYERS else 0


def imports(text: str) -> set[str]:
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))
    return {
        AT_ROOT.get(name, name)
        for names in IMPORT.findall(code)
        for name in re.findall(r"\w+", names)
    }


def upward(source: Path) -> list[str]:
    found = []
    for path in sorted(source.rglob("*.rs")):
        place = path.relative_to(source)
        if place.name in ("lib.rs", "tests.rs") or "tests" in place.parts:
            continue
        module = place.parts[0].removesuffix(".rs")
        code = re.split(r"#\[cfg\(test\)\]\n(?:pub\(crate\) )?mod tests \{", path.read_text())[0]
        found += [
            f"{place} imports {other}, which is above it"
            for other in sorted(imports(code))
            if height(other) > height(module)
        ]
    return found


def out_of_order(module: Path) -> list[str]:
    """What the files of a module import that its `mod` lines name before them."""
    text = re.sub(r"#\[cfg\(test\)\]\nmod \w+;", "", module.read_text())
    order = re.findall(r"^mod (\w+);", text, re.MULTILINE)
    found = []
    for index, name in enumerate(order):
        code = (module.with_suffix("") / f"{name}.rs").read_text().split("#[cfg(test)]\nmod tests {")[0]
        lines = [line for line in code.splitlines() if not line.lstrip().startswith("//")]
        names = set(re.findall(rf"\b(?:super|crate::{module.stem})::(\w+)", "\n".join(lines)))
        found += [
            f"{module.stem}/{name}.rs imports {other}, which is named before it"
            for other in order[:index]
            if other in names
        ]
    return found


if __name__ == "__main__":
    crate = Path(__file__).parent
    problems = upward(crate / "src")
    problems += out_of_order(crate.parent / "manyhands-sqlite" / "src" / "vfs.rs")
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(bool(problems))
