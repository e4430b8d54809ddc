"""What checking drafts costs behind long texts: python3 bench/decode/write_long_context.py
build/release/bench/bench.long_context [options of the program]

Writes bench/results/long-context-MODEL.json for two models; bench/tables.py makes a table of them. Nothing else may run
meanwhile. About five minutes.
"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measured

MODELS = "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = pathlib.Path(sys.argv[1]).resolve()
    origin = measured.origin(program)
    for model in MODELS:
        command = [program, "-m", model, *sys.argv[2:]]
        result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        measured.write(measured.RESULTS / f"long-context-{model}.json", {**origin, **result})


if __name__ == "__main__":
    main()
