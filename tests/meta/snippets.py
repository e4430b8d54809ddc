"""The C++ of a page is the code of a test that runs: region 'README' of tests/models.test.cpp for README.md, and in any
test the lines between '// docs/PAGE.md: begin' and '// docs/PAGE.md: end' for that page, as they stand."""
import pathlib
import re
import sys
import textwrap

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
if root.is_file():
    root = root.parents[2]
region = re.compile(r"// (README|docs/[\w/-]+[.]md): begin\n(.*?)\n *// \1: end", re.S)
wrong = []
found = set()
for test in sorted(root.glob("tests/**/*.test.cpp")):
    for name, code in region.findall(test.read_text()):
        page = "README.md" if name == "README" else name
        found.add(page)
        if textwrap.dedent(code).strip() not in (root / page).read_text():
            wrong.append(f"{page}: its C++ is not that of region '{name}' in {test.relative_to(root)}")
if "README.md" not in found:
    wrong.append("tests: no region 'README'")
if wrong:
    sys.exit("\n".join(wrong))
