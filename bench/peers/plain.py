"""Plain decoding of any model beside llama.cpp's own benchmark, in turns:

    python3 bench/peers/plain.py FOLDER --program build/release/foredraft --llama-bench PROGRAM MODEL ...

MODEL is a name or a file; FOLDER/plain.json is the result. Both decode the same number of tokens behind an empty context,
each in a process of its own, several times. PROGRAM is built with install.py's llama-server:

    cmake --build PEERS/llama-server --target llama-bench

Nothing else may run meanwhile.
"""
import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measured
from run_all import model_file

TOKENS = 64
REPETITIONS = 3  # in a process


def ours(args, model):
    done = subprocess.run([args.program, "bench", "-m", model, "-p", "0", "-n", str(TOKENS), "-r", str(REPETITIONS), "-t",
                           str(args.threads), "-o", "json"], check=True, capture_output=True, text=True)
    result = json.loads(done.stdout)
    return result["machine"]["isa"], result["results"][0]["median"]


def theirs(args, model):
    done = subprocess.run([args.llama_bench, "-m", model, "-p", "0", "-n", str(TOKENS), "-r", str(REPETITIONS), "-t",
                           str(args.threads), "-o", "json"], check=True, capture_output=True, text=True)
    result = json.loads(done.stdout)[0]
    return result["build_number"], result["avg_ts"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="of the result file")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--llama-bench", required=True, type=pathlib.Path)
    parser.add_argument("-r", "--turns", type=int, default=6)
    parser.add_argument("-t", "--threads", type=int, default=2)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    head = {**measured.origin(args.program), "threads": args.threads, "tokens": TOKENS}
    models = {}
    for name in args.models:
        path = model_file(name)
        both = {"foredraft": [], "llama.cpp": []}
        for turn in range(args.turns):
            for engine in sorted(both, reverse=turn % 2 == 1):
                about, speed = (ours if engine == "foredraft" else theirs)(args, path)
                head["isa" if engine == "foredraft" else "llama.cpp"] = about
                both[engine].append(speed)
        models[path.stem] = {f"{engine} tokens_per_second": speeds for engine, speeds in both.items()}
        print(path.stem, both, file=sys.stderr, flush=True)
    measured.write(args.folder / "plain.json", {**head, "models": models})


if __name__ == "__main__":
    main()
