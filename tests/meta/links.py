"""Pages: the navigation is complete, no link is dead, and files that are named exist."""

import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)")
# `examples/quickstart.sh` in a text promises that there is such a file.
NAMED_FILE = re.compile(r"`((?:include|examples|tests|docs|bench|cmake|src|\.ci)/[\w./+-]*)`")
# What docs/source_pages.py makes a page of the site.
SOURCE = re.compile(r"(?:\.\./)+(?:examples|include|tests|bench|cmake)/[\w./-]+\.(?:cpp|hpp|cu|cuh|py|sh)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(text):
    """Anchors as mkdocs makes them of headings."""
    found = set()
    for heading in re.findall(r"^#+\s+(.+)$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
        found.add(re.sub(r"[-\s]+", "-", plain))
    return found


def pages(root):
    yield from sorted(root.glob("*.md"))
    for folder in ("docs", "examples", "tests", "bench"):
        yield from sorted((root / folder).rglob("*.md"))


def check_page(root, page):
    text = page.read_text()
    name = page.relative_to(root)
    docs = root / "docs"
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if root not in file.parents:
            yield f"{name}: {target} leaves the project"
        elif not file.exists():
            yield f"{name}: {target} does not exist"
        elif docs in page.parents and docs not in file.parents and not SOURCE.fullmatch(target):
            # such a link works in a checkout; the site has pages of source files alone beside docs/
            yield f"{name}: {target} leaves docs/; name the file in `code` instead"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            yield f"{name}: {target} has no such heading"
    for path in NAMED_FILE.findall(FENCE.sub("", text)):
        if not (root / path).exists():
            yield f"{name}: `{path}` does not exist"


def problems(root):
    found = []
    config = (root / "mkdocs.yml").read_text()
    nav = config.partition("\nnav:")[2]
    listed = re.findall(r":\s*([\w./-]+\.md)\s*$", nav, re.MULTILINE)
    there = {page.relative_to(root / "docs").as_posix() for page in (root / "docs").rglob("*.md")}
    found += [f"mkdocs.yml: {page} does not exist" for page in listed if page not in there]
    found += [f"mkdocs.yml: {page} is not in the navigation" for page in sorted(there - set(listed))]
    found += [f"mkdocs.yml: {page} is listed twice" for page in set(listed) if listed.count(page) > 1]
    for page in pages(root):
        found += check_page(root, page)
    return found


if __name__ == "__main__":
    lines = problems(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(lines) or "navigation and links in order")
    sys.exit(bool(lines))
