"""What a format of keys and values costs: python3 bench/cache_formats/write_results.py
build/release/bench/bench.cache_formats [options of the program]

Perplexity and memory of two models with caches in several pairs of formats, and what a target accepts of a draft model
with such a cache. Writes bench/results/cache-formats-MODEL.json; bench/tables.py makes tables of them. Nothing here
depends on how quick the machine is.
"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measured

TEXT = ["-f", measured.ROOT / "bench/data/text.txt"]
RUNS = {"smollm2-135m": TEXT, "qwen2.5-coder-0.5b": TEXT,
        "qwen2.5-coder-1.5b": ["--model-draft", "qwen2.5-coder-0.5b", "--prompts",
                               measured.ROOT / "bench/prompts/dev.jsonl"]}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = pathlib.Path(sys.argv[1]).resolve()
    # Before the run, which takes long enough for a commit to come in between.
    origin = measured.origin(program)
    for model, options in RUNS.items():
        command = [program, "-m", model, *options, *sys.argv[2:]]
        result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        measured.write(measured.RESULTS / f"cache-formats-{model}.json", {**origin, **result})


if __name__ == "__main__":
    main()
