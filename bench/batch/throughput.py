"""Tokens/s of many prompts that are answered at once, beside llama.cpp's server with as many slots, in turns:

    python3 bench/batch/throughput.py FOLDER --program build/release/foredraft --answers build/release/bench/bench.answers \
        --server build/peers/bin/llama-server

A turn answers the same prompts of bench/prompts in each way, in an order that changes from turn to turn. The time is that of all
answers, prompts included, without loading. Our texts have to be equal in all ways; the status is 1 where they are not.
FOLDER/batch-MODEL.json is the result. Nothing else may run meanwhile.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "speculate"))
import engines
import measured
from run_all import model_file


def ours(args, prompts, at_once, options):
    """Seconds and the tokens of each text."""
    done = subprocess.run([args.program, "batch", "-m", args.target, "-t", str(args.threads), "-n", str(args.tokens),
                           "--parallel", str(at_once), "-f", prompts, *options], capture_output=True, text=True, check=True)
    seconds = float(re.search(r"([\d.]+) s in all", done.stderr)[1])
    return seconds, [json.loads(line)["tokens"] for line in done.stdout.splitlines()]


def served(args, encoded, at_once, options):
    """By `foredraft serve`, to which that many clients talk."""
    return from_server(engines.ForedraftServer(args.program, args.target, ["--parallel", str(at_once), *options],
                                               args.threads), args, encoded, at_once)


def theirs(args, encoded, at_once, options):
    return from_server(engines.LlamaServer(args.server, str(model_file(args.target)),
                                           ["-np", str(at_once), "-c", str(engines.CONTEXT * at_once), *options],
                                           args.threads), args, encoded, at_once)


def from_server(server, args, encoded, at_once):
    try:
        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            texts = list(pool.map(lambda ids: server.answer("", ids, args.tokens, {})["tokens"], encoded))
        return time.perf_counter() - start, texts
    finally:
        server.close()


def ways(args):
    """name -> (texts at once, seconds and texts of a turn)"""
    found = {}
    for at_once in args.at_once:
        mine = {"plain": ["--spec-type", "none"], "auto": []}
        if args.draft:
            mine["auto + draft"] = ["-md", args.draft]
        for name, options in mine.items():
            found[f"foredraft {name}", at_once] = lambda f, _, n=at_once, o=options: ours(args, f, n, o)
        found["foredraft serve, auto", at_once] = lambda _, ids, n=at_once: served(args, ids, n, [])
        if not args.server:
            continue
        for name, options in (("plain", []), ("ngram-simple", ["--spec-type", "ngram-simple"])):
            found[f"llama.cpp {name}", at_once] = lambda _, ids, n=at_once, o=options: theirs(args, ids, n, o)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="of the result file")
    parser.add_argument("--program", default=measured.ROOT / "build/release/foredraft", type=pathlib.Path)
    parser.add_argument("--answers", default=measured.ROOT / "build/release/bench/bench.answers", type=pathlib.Path)
    parser.add_argument("--server", help="llama-server; without it llama.cpp is left out")
    parser.add_argument("--target", default="qwen2.5-coder-1.5b")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b", help="empty: none")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--of-group", type=int, default=2, help="prompts of each group")
    parser.add_argument("-n", "--tokens", type=int, default=128)
    parser.add_argument("-r", "--repetitions", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=2)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    head = measured.origin(args.program)

    groups = {}
    for line in (measured.ROOT / "bench/prompts/dev.jsonl").read_text().splitlines():
        prompt = json.loads(line)
        groups.setdefault(prompt["group"], []).append(prompt)
    prompts = [prompt for group in groups.values() for prompt in group[:args.of_group]]
    engine = engines.Foredraft(args.answers, str(model_file(args.target)), None, args.threads)
    encoded = [engine.encode(prompt["prompt"]) for prompt in prompts]
    info = engine.info
    engine.close()

    all_ways = ways(args)
    seconds = {way: [] for way in all_ways}
    texts = {}
    different = set()
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for prompt in prompts:
            print(json.dumps(prompt), file=file, flush=True)
        for turn in range(args.repetitions):
            order = list(all_ways)
            for way in order[turn % len(order):] + order[:turn % len(order)]:
                took, tokens = all_ways[way](file.name, encoded)
                seconds[way].append(took)
                texts.setdefault(way, tokens)
                if way[0].startswith("foredraft") and tokens != texts.get(("foredraft plain", args.at_once[0]), tokens):
                    different.add(way)
                print(turn, *way, f"{took:.1f} s", file=sys.stderr)

    counts = {way: sum(map(len, tokens)) for way, tokens in texts.items()}
    result = {**head, "model": args.target, "draft": args.draft, "threads": args.threads, "isa": info["isa"],
              "prompts": len(prompts), "prompt_tokens": sum(map(len, encoded)), "at_once": args.at_once,
              "ways": {name: {str(n): {"tokens": counts[name, n],
                                       "tokens_per_second": measured.summary([counts[name, n] / s for s in seconds[name, n]])}
                              for of, n in all_ways if of == name}
                       for name in dict.fromkeys(name for name, _ in all_ways)}}
    (args.folder / f"batch-{args.target}.json").write_text(json.dumps(result, indent=1) + "\n")
    for way in sorted(different):
        print(f"{way[0]}, {way[1]} at once: other texts", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
