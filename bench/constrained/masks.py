"""What masks of grammars cost: python3 bench/constrained/masks.py FOLDER --program build/release/bench/bench.masks

FOLDER/masks.json is the result: of each number the median of several processes. Nothing else may run meanwhile.
"""
import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measured


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="of the result file")
    parser.add_argument("--program", default=measured.ROOT / "build/release/bench/bench.masks", type=pathlib.Path)
    parser.add_argument("-r", "--processes", type=int, default=5)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    head = measured.origin(args.program)
    results = [json.loads(subprocess.run([args.program], check=True, capture_output=True, text=True).stdout)
               for _ in range(args.processes)]
    measured.write(args.folder / "masks.json", {**head, "processes": args.processes, **measured.medians(results)})


if __name__ == "__main__":
    main()
