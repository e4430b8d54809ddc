"""The C++ of the README is the code of a test that runs: region 'README' of tests/models.test.cpp, as it stands."""
import pathlib
import re
import sys
import textwrap

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
if root.is_file():
    root = root.parents[2]
test = (root / "tests/models.test.cpp").read_text()
region = re.search(r"// README: begin\n(.*?)\n *// README: end", test, re.S)
if not region:
    sys.exit("tests/models.test.cpp: no region 'README'")
if textwrap.dedent(region[1]).strip() not in (root / "README.md").read_text():
    sys.exit("README.md: its C++ is not that of region 'README' in tests/models.test.cpp")
