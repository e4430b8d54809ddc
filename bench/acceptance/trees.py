"""What trees of a draft model bring: python3 bench/acceptance/trees.py build/release/foredraft

Answers prompts of every group with drafts of several shapes and a fixed depth, greedy, and counts the tokens and the rows of
a round. Nothing is timed: what rows cost depends on the machine. Writes bench/results/trees-TARGET-DRAFT.json, from which
bench/tables.py makes a table. All texts have to be equal.
"""
import argparse
import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measured
from draft_cost import generate, prompts


def best_first(nodes):
    return ["--spec-tree", "auto", "--spec-draft-nodes", nodes]


# Depth, and the options of the shape. The planned tree has three levels.
WAYS = {"chain, depth 3": (3, []),
        "planned, 2 children of each node, depth 3": (3, ["--spec-tree", "2,2,2"]),
        "best first, 7 nodes, depth 3": (3, best_first(7)),
        "best first, 15 nodes, depth 3": (3, best_first(15)),
        "chain, depth 5": (5, []),
        "best first, 7 nodes, depth 5": (5, best_first(7)),
        "best first, 15 nodes, depth 5": (5, best_first(15))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--target", default="qwen2.5-coder-1.5b")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b")
    parser.add_argument("--each", type=int, default=2, help="prompts of each group")
    parser.add_argument("--groups", nargs="*", help="[all]")
    parser.add_argument("-n", "--tokens", type=int, default=64)
    parser.add_argument("--temp", type=float, default=0.0)
    arguments = parser.parse_args()
    sampling = ["--temp", arguments.temp, "--seed", 1] if arguments.temp > 0 else []
    counts = {way: collections.defaultdict(collections.Counter) for way in WAYS}
    for prompt in prompts(arguments.each):
        if arguments.groups and prompt["group"] not in arguments.groups:
            continue
        texts = set()
        for way, (depth, options) in WAYS.items():
            answer = generate(arguments, prompt["prompt"],
                              ["-n", arguments.tokens, *sampling, "--spec-type", "draft", "--spec-draft-n-max", depth,
                               *options])
            texts.add(tuple(answer["tokens"]))
            counts[way][prompt["group"]].update({key: answer["stats"][key] for key in ("rounds", "drafted", "emitted")})
        if len(texts) != 1:
            sys.exit(f"{prompt['id']}: the text depends on the draft")
        print(prompt["id"], *(f"{c[prompt['group']]['emitted'] / c[prompt['group']]['rounds']:.2f}"
                              for c in counts.values()), file=sys.stderr)
    temperature = f"-temp-{arguments.temp}" if arguments.temp > 0 else ""
    measured.write(measured.RESULTS / f"trees-{arguments.target}-{arguments.draft}{temperature}.json",
                   {**measured.origin(arguments.program), "target": arguments.target, "draft": arguments.draft,
                    "tokens": arguments.tokens, "temperature": arguments.temp, "ways": counts})


if __name__ == "__main__":
    main()
