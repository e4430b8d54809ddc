"""A clone stands alone and is finished: no path of one machine, no marker of unfinished work."""

import pathlib
import re
import sys

SUFFIXES = {".hpp", ".cpp", ".cuh", ".cu", ".py", ".sh", ".md", ".cmake", ".txt", ".in", ".json",
            ".yml", ".jsonl", ""}
SKIPPED = {".git", ".venv", "__pycache__", "build"}
RULES = {
    r"(?<![\w.}$~-])/(?:root|home|Users|mnt|work|tmp)/\w": "a path of one machine",
    r"\b(?:TODO|FIXME|XXX|HACK)\b": "a marker of unfinished work",
    r"(?i)\b(?:not (?:yet )?implemented|placeholder|stub)\b": "unfinished work",
    r"(?<![\w./])(?:\.\./)+shared\b": "a file outside the project",
}
# Data holds other people's texts, and the rules name what they forbid.
EXEMPT = re.compile(r"^(?:tests/golden/|tests/data/|bench/prompts/|tests/meta/(?:standalone|checks_test)\.py)")


def files(root):
    for entry in sorted(root.iterdir()):
        if entry.name in SKIPPED or entry.name.startswith("build"):
            continue
        if entry.is_dir():
            yield from files(entry)
        elif entry.suffix in SUFFIXES and not entry.is_symlink():
            yield entry


def problems(root):
    found = []
    for file in files(root):
        name = file.relative_to(root).as_posix()
        if EXEMPT.match(name):
            continue
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue  # binary test data
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, reason in RULES.items():
                match = re.search(pattern, line)
                if match:
                    found.append(f"{name}:{number}: {reason}: {match[0]}")
    return found


if __name__ == "__main__":
    lines = problems(pathlib.Path(sys.argv[1]))
    print("\n".join(lines) or "stands alone")
    sys.exit(bool(lines))
