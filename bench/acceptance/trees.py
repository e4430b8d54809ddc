"""What trees of a draft model bring: python3 bench/acceptance/trees.py build/release/foredraft

Answers prompts of every group with drafts of several shapes and a fixed depth, greedy, and counts the tokens and the rows of
a round. Nothing is timed: what rows cost depends on the machine. Writes bench/results/trees-TARGET-DRAFT.json, from which
bench/tables.py makes a table. All texts have to be equal.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measured
from draft_cost import prompts

DEPTHS = 3, 5
BEST_FIRST = ["--spec-tree", "auto", "--spec-draft-nodes"]
SHAPES = {"chain": [], "planned, 2 children of each node": ["--spec-tree", "2,2,2"],
          **{f"best first, {n} nodes": [*BEST_FIRST, str(n)] for n in (7, 15)}}


def run(arguments, prompt, depth, options):
    with tempfile.NamedTemporaryFile("w", suffix=".txt", newline="") as file:
        file.write(prompt)
        file.flush()
        command = [arguments.program, "generate", "-m", arguments.target, "-md", arguments.draft, "-f", file.name, "-n",
                   str(arguments.tokens), "--spec-type", "draft", "--spec-draft-n-max", str(depth), "--json", *options]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--target", default="qwen2.5-coder-1.5b")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b")
    parser.add_argument("--each", type=int, default=2, help="prompts of each group")
    parser.add_argument("--groups", nargs="*", help="[all]")
    parser.add_argument("-n", "--tokens", type=int, default=64)
    arguments = parser.parse_args()
    ways = {f"{shape}, depth {depth}": (depth, options) for depth in DEPTHS for shape, options in SHAPES.items()
            if not (depth == 5 and "planned" in shape)}
    counts = {way: collections.defaultdict(collections.Counter) for way in ways}
    for prompt in prompts(arguments.each):
        if arguments.groups and prompt["group"] not in arguments.groups:
            continue
        texts = set()
        for way, (depth, options) in ways.items():
            answer = run(arguments, prompt["prompt"], depth, options)
            texts.add(tuple(answer["tokens"]))
            counts[way][prompt["group"]].update({key: answer["stats"][key] for key in ("rounds", "drafted", "emitted")})
        if len(texts) != 1:
            sys.exit(f"{prompt['id']}: the text depends on the draft")
        print(prompt["id"], *(f"{c[prompt['group']]['emitted'] / c[prompt['group']]['rounds']:.2f}"
                              for c in counts.values()), file=sys.stderr)
    measured.write(measured.RESULTS / f"trees-{arguments.target}-{arguments.draft}.json",
                   {**measured.origin(arguments.program), "target": arguments.target, "draft": arguments.draft,
                    "tokens": arguments.tokens, "ways": counts})


if __name__ == "__main__":
    main()
