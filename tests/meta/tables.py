"""Pages: their tables are those of the result files."""

import pathlib
import subprocess
import sys

if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1]).resolve()
    sys.exit(subprocess.run([sys.executable, root / "bench/tables.py", "--check"]).returncode)
