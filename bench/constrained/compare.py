"""Answers under JSON schemas, with drafts and without, in turns:

    python3 bench/constrained/compare.py FOLDER --program build/release/bench/bench.answers

A turn is one schema of tests/constraint/schemas.jsonl and its prompt, answered plainly and without the schema, plainly under
an expression that any text matches, plainly under the schema, and under it with drafts: what the schema forces, and lookups.
All are greedy; the first two texts have to be the same, and the last two. Time is that behind the prompt's reading; masks are
new for each answer. FOLDER/constrained-MODEL.json is the result. Nothing else may run meanwhile.
"""
import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "speculate"))
import engines
import measured
from run_all import model_file

WAYS = {"free": {"speculation": "none"},
        "any": {"speculation": "none", "regex": r"[\s\S]*"},
        "plain": {"speculation": "none"},
        "drafted": {"speculation": "auto"}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="of the result file")
    parser.add_argument("--program", default=measured.ROOT / "build/release/bench/bench.answers", type=pathlib.Path)
    parser.add_argument("--target", default="qwen2.5-coder-1.5b")
    parser.add_argument("--limit", type=int, default=20, help="schemas")
    parser.add_argument("-n", "--max-tokens", type=int, default=128)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=2)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    lines = (measured.ROOT / "tests/constraint/schemas.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines[:args.limit]]
    head = measured.origin(args.program)
    engine = engines.Foredraft(args.program, str(model_file(args.target)), None, args.threads)
    head.update({"target": args.target, "max_tokens": args.max_tokens, "rounds": args.rounds, **engine.info})

    def answer(entry, way):
        asked = dict(WAYS[way])
        if way in ("plain", "drafted"):
            asked["schema"] = json.dumps(entry["schema"])
        engine.forget(asked)
        return engine.answer(f"{entry['prompt']} Answer in JSON.", None, args.max_tokens, asked)

    records = [{"name": entry["name"], "ways": {way: {"seconds": [], "tokens": [], "rounds": []} for way in WAYS}}
               for entry in entries]
    differ = []
    for number in range(args.rounds):
        engine.begin_round(number)
        for way in WAYS:
            answer({"prompt": "Name a colour.", "schema": {"type": "string", "maxLength": 8}}, way)
        for entry, record in zip(entries, records):
            order = random.Random(f"{number} {entry['name']}").sample(list(WAYS), len(WAYS))
            turn = {way: answer(entry, way) for way in order}
            if any(turn[a]["tokens"] != turn[b]["tokens"] for a, b in [("free", "any"), ("plain", "drafted")]):
                differ.append(entry["name"])
            for way, told in turn.items():
                record["ways"][way]["seconds"].append(told["decode_seconds"])
                record["ways"][way]["tokens"].append(len(told["tokens"]))
                record["ways"][way]["rounds"].append(told["rounds"])
            speed = {way: len(told["tokens"]) / told["decode_seconds"] for way, told in turn.items()}
            print(f"{number} {entry['name']}: free {speed['free']:.1f} tokens/s,"
                  f" any text {speed['any'] / speed['free']:.2f}, plain {speed['plain'] / speed['free']:.2f},"
                  f" drafted {speed['drafted'] / speed['plain']:.2f} of plain", file=sys.stderr, flush=True)
    measured.write(args.folder / f"constrained-{args.target}.json", {**head, "schemas": records})
    if differ:
        sys.exit("texts differ from plain decoding: " + ", ".join(differ))


if __name__ == "__main__":
    main()
