"""What a cheaper draft model costs and keeps: python3 bench/acceptance/draft_cost.py build/release/foredraft

Runs the program with the draft model as it is, requantized, with a trimmed head, and with both, in turns over prompts of
every group, greedy. Writes bench/results/draft-cost-TARGET-DRAFT.json and prints the table as Markdown. The time of a
drafted token is that of a long text less that of a short one, so that reading the prompt does not count. All texts have
to be equal. Nothing else may run meanwhile.
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

VARIANTS = {"as it is": ["--quantize-draft", "none"],
            "Q4_0": ["--quantize-draft", "q4_0"],
            "32768 head tokens": ["--quantize-draft", "none", "--draft-vocab", "32768"],
            "both": ["--quantize-draft", "q4_0", "--draft-vocab", "32768"]}
SHORT, LONG = 8, 72  # tokens


def prompts(each):
    """The first few of each group."""
    seen = collections.Counter()
    for line in (measured.ROOT / "bench/prompts/dev.jsonl").read_text().splitlines():
        prompt = json.loads(line)
        seen[prompt["group"]] += 1
        if seen[prompt["group"]] <= each:
            yield prompt


def generate(arguments, prompt, options):
    """What the program says of an answer with the draft model."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", newline="") as file:
        file.write(prompt)
        file.flush()
        command = [arguments.program, "generate", "-m", arguments.target, "-md", arguments.draft, "-f", file.name, "--json",
                   *map(str, options)]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def run(arguments, prompt, n, options):
    return generate(arguments, prompt, ["-n", n, "--ignore-eos", "--spec-draft-n-max", arguments.depth, *options])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--target", default="qwen2.5-coder-1.5b")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b")
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--each", type=int, default=2, help="prompts of each group")
    arguments = parser.parse_args()
    origin = measured.origin(arguments.program)
    counts = {name: collections.Counter() for name in VARIANTS}
    milliseconds = collections.defaultdict(list)
    n_prompts = 0
    for prompt in prompts(arguments.each):
        n_prompts += 1
        texts = set()
        for name, options in VARIANTS.items():
            short, long = (run(arguments, prompt["prompt"], n, options) for n in (SHORT, LONG))
            texts.add(tuple(long["tokens"]))
            stats = long["stats"]
            counts[name].update({key: stats[key] for key in ("rounds", "drafted", "accepted", "emitted")})
            drafted = stats["drafted"] - short["stats"]["drafted"]
            seconds = stats["seconds"]["draft"] - short["stats"]["seconds"]["draft"]
            milliseconds[name].append(1000 * seconds / drafted)
        if len(texts) != 1:
            sys.exit(f"{prompt['id']}: the text depends on the draft")
        print(prompt["id"], *(f"{milliseconds[name][-1]:.1f}" for name in VARIANTS), file=sys.stderr)
    base = milliseconds["as it is"]
    variants = {name: {"options": VARIANTS[name], **counts[name],
                       "ms_per_drafted_token": measured.summary(milliseconds[name]),
                       "time_ratio": measured.summary([ms / b for ms, b in zip(milliseconds[name], base)])}
                for name in VARIANTS}
    out = {**origin, "target": arguments.target, "draft": arguments.draft, "depth": arguments.depth,
           "prompts": n_prompts, "tokens": LONG, "variants": variants}
    measured.write(measured.RESULTS / f"draft-cost-{arguments.target}-{arguments.draft}.json", out)
    print("| draft | ms a token | time, relative | drafts accepted | tokens a round |\n|---|---:|---:|---:|---:|")
    for name, v in variants.items():
        print(f"| {name} | {v['ms_per_drafted_token']['median']:.1f} | {v['time_ratio']['median']:.2f} | "
              f"{100 * v['accepted'] / v['drafted']:.0f} % ({v['accepted']} of {v['drafted']}) | "
              f"{v['emitted'] / v['rounds']:.2f} |")


if __name__ == "__main__":
    main()
