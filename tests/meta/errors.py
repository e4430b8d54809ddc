"""docs/reference/errors.md has one section per ErrorCode, in order, each with cause and remedy."""

import pathlib
import re
import sys


def problems(root):
    header = (root / "include" / "foredraft" / "core" / "error.hpp").read_text()
    page = (root / "docs" / "reference" / "errors.md").read_text()
    body = re.search(r"enum class ErrorCode\b[^{]*\{(.*?)\};", header, re.DOTALL)[1]
    codes = re.findall(r"^\s*(k\w+)", re.sub(r"//[^\n]*", "", body), re.MULTILINE)
    spelled = dict(re.findall(r'case ErrorCode::(k\w+): return "([^"]+)"', header))
    found = [f"{code} has no spelling in name_of" for code in codes if code not in spelled]

    pieces = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    sections = dict(zip(pieces[1::2], pieces[2::2]))
    expected = [f"`{spelled[code]}` ({code})" for code in codes if code in spelled]
    if list(sections) != expected:
        found.append(f"sections of errors.md: {list(sections)}\nexpected: {expected}")
    for title, text in sections.items():
        for word in ("**Cause.**", "**Remedy.**"):
            if word not in text:
                found.append(f"errors.md, {title}: no {word}")
    return found


if __name__ == "__main__":
    lines = problems(pathlib.Path(sys.argv[1]))
    print("\n".join(lines) or "enum and page agree")
    sys.exit(bool(lines))
