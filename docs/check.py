"""Checks that what the pages and the comments name exists: `python3 docs/check.py`.

Links between pages lead somewhere, anchors included; files and functions that ARCHITECTURE.md names are in the tree, and so are files that
comments in Rust name; the glossary has at most 45 concepts in their order, and the table of decisions every page of docs/decisions.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONCEPTS_MAX = 45
MAP = "ARCHITECTURE.md"


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines() if (ROOT / path).is_file()]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


def dead_links(page: str) -> list[str]:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (ROOT / page).parent / place if place else ROOT / page
        if not target.exists():
            found.append(f"{page}: {link} leads nowhere")
        elif anchor and anchor not in anchors(target):
            found.append(f"{page}: {link} has no such heading")
    return found


def has_function(sources: list[str], owner: str, name: str) -> bool:
    function = re.compile(rf"\b(fn|const) {name}\b")
    owned = re.compile(rf"\b(impl\b[^{{]*|trait |mod |struct ){owner}\b")
    return any(function.search(text) and (not owner or owned.search(text)) for text in sources)


def unknown_names(files: list[str]) -> list[str]:
    """Code spans of the map that are paths or functions, and name nothing."""
    spans = set(re.findall(r"`([^`\n]+)`", (ROOT / MAP).read_text()))
    folders = {str(parent) + "/" for path in files for parent in Path(path).parents}
    sources = [(ROOT / path).read_text() for path in files if path.endswith(".rs")]
    found = []
    for span in sorted(spans):
        if re.fullmatch(r"[\w/.-]+\.(rs|py|md)", span):
            if not any(f"/{path}".endswith(f"/{span}") for path in files):
                found.append(f"{MAP}: there is no file {span}")
        elif re.fullmatch(r"[\w-]+(/[\w-]+)+/", span):
            if not any(f"/{folder}".endswith(f"/{span}") for folder in folders):
                found.append(f"{MAP}: there is no folder {span}")
        elif name := re.fullmatch(r"(?:(\w+)::)?(\w+)", span):
            owner, function = name[1] or "", name[2]
            # Other words are SQL, types, options.
            if (owner or "_" in function and function.islower()) and not has_function(sources, owner, function):
                found.append(f"{MAP}: there is no function {span}")
    return found


def stale_comments(files: list[str]) -> list[str]:
    """Files that comments name, and that are not in the tree."""
    ends = {"/".join(Path(path).parts[-count:]) for path in files for count in range(1, len(Path(path).parts) + 1)}
    found = []
    for path in (it for it in files if it.endswith(".rs")):
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
            comment = line.partition("//")[2] if line.lstrip().startswith("//") and "://" not in line else ""
            named = (re.sub(r"^(\.\./)+", "", name) for name in re.findall(r"[\w/.-]+\.rs\b", comment))
            found += [f"{path}:{number}: there is no file {name}" for name in named if name not in ends]
    return found


def wrong_tables(files: list[str]) -> list[str]:
    _, _, rest = (ROOT / MAP).read_text().partition("\n## Glossary\n")
    glossary, _, rest = rest.partition("\n## Decisions\n")
    decisions, _, _ = rest.partition("\n## ")
    concepts = re.findall(r"^\| (.+?) \|", glossary, re.MULTILINE)[1:]
    found = []
    if not 0 < len(concepts) <= CONCEPTS_MAX:
        found.append(f"{MAP}: the glossary has {len(concepts)} concepts, and at most {CONCEPTS_MAX} are meant")
    if concepts != sorted(concepts):
        found.append(f"{MAP}: the glossary is not in its order")
    pages = sorted(path for path in files if path.startswith("docs/decisions/"))
    linked = re.findall(r"\((docs/decisions/[^)]+)\)", decisions)
    if not pages or linked != pages:
        found.append(f"{MAP}: the decisions are not the pages of docs/decisions: {sorted(set(pages) ^ set(linked))}")
    return found


def main() -> int:
    files = tracked()
    problems = [problem for page in files if page.endswith(".md") for problem in dead_links(page)]
    problems += unknown_names(files) + stale_comments(files) + wrong_tables(files)
    print("\n".join(problems), end="\n" if problems else "")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
