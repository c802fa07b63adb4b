"""Checks that the folders of src/ import downward only: `python3 layers.py` in this directory.

A folder may import those below it, itself, and the files beside the folders, which import none of them.
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


if __name__ == "__main__":
    problems = upward(Path(__file__).parent / "src")
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(bool(problems))
