"""Passes of models with recurrent layers, by rows, and what keeping their states costs:

    python3 bench/recurrent/measure.py FOLDER --models MODELS --program build/release/bench/bench.recurrent

MODELS is the folder that models.py has filled. FOLDER/recurrent.json is the result. Nothing else may run meanwhile.
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
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--program", default=measured.ROOT / "build/release/bench/bench.recurrent", type=pathlib.Path)
    parser.add_argument("-r", "--repetitions", type=int, default=15)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    head = measured.origin(args.program)
    models = {}
    for path in sorted(args.models.glob("*.gguf")):
        done = subprocess.run([args.program, "-m", path, "-r", str(args.repetitions)], check=True, capture_output=True,
                              text=True)
        result = json.loads(done.stdout)
        head.update({key: result.pop(key) for key in ("isa", "threads", "repetitions")})
        models[result.pop("model")] = result
    measured.write(args.folder / "recurrent.json", {**head, "models": models})


if __name__ == "__main__":
    main()
