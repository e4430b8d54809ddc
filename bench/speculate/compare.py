"""Whole answers, each way to draft against plain decoding: python3 bench/speculate/compare.py build/release/bench/bench.answers

Every prompt is answered in every way, in turns. Then all of that is repeated with new sessions, because a way remembers what it
answered. The time is that of the whole answer: reading the
prompt, a draft model's reading included. A ratio is plain time by time, of one turn; the median of the turns counts. Texts have
to be equal at temperature 0 and, with --temperature, for the seed. Writes a result file and prints tables. Nothing else may run
meanwhile.
"""
import argparse
import collections
import json
import math
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measured

# name: (what is asked for, whether it needs a draft model)
WITHOUT_MODEL = ("lookup", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache", "suffix",
                 "suffix-automaton", "recycling", "auto")
WAYS = {
    "none": ({"speculation": "none"}, False),
    **{name: ({"speculation": name}, False) for name in WITHOUT_MODEL},
    "draft": ({"speculation": "draft", "model": True}, True),
    "draft, depth 4": ({"speculation": "draft", "model": True, "depth": 4}, True),
    "auto + draft": ({"speculation": "auto", "model": True}, True),
}


class Engine:
    def __init__(self, arguments):
        command = [arguments.program, "-m", arguments.target, "-t", str(arguments.threads)]
        if arguments.draft:
            command += ["-d", arguments.draft]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self, **asked):
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the program ended")
        answer = json.loads(line)
        if "error" in answer:
            sys.exit(answer["error"])
        return answer


def prompts(each, groups):
    seen = collections.Counter()
    for line in (measured.ROOT / "bench/prompts/dev.jsonl").read_text().splitlines():
        prompt = json.loads(line)
        seen[prompt["group"]] += 1
        if seen[prompt["group"]] <= each and (not groups or prompt["group"] in groups):
            yield prompt


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def table(records, ways):
    """Ratio to plain by group and way, the worst prompt of all, and the geometric mean over the groups."""
    groups = list(dict.fromkeys(record["group"] for record in records))
    lines = ["| way | " + " | ".join(groups) + " | mean | worst prompt |",
             "|---|" + "---:|" * (len(groups) + 2)]
    for way in ways:
        if way == "none":
            continue
        by_group = [geometric_mean([r["ways"][way]["ratio"] for r in records if r["group"] == group]) for group in groups]
        worst = min(r["ways"][way]["ratio"] for r in records)
        cells = [f"{ratio:.2f}" for ratio in [*by_group, geometric_mean(by_group), worst]]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--target", default="qwen2.5-coder-1.5b")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b", help="empty: none")
    parser.add_argument("--each", type=int, default=6, help="prompts of each group")
    parser.add_argument("--groups", nargs="*")
    parser.add_argument("-n", type=int, default=128, help="tokens of an answer at most")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ways", nargs="*", choices=WAYS)
    parser.add_argument("-o", "--output", type=pathlib.Path, help="result file [none]")
    arguments = parser.parse_args()
    ways = [way for way, (_, needs) in WAYS.items()
            if (not arguments.ways or way in arguments.ways or way == "none") and (arguments.draft or not needs)]
    engine = Engine(arguments)
    chosen = list(prompts(arguments.each, arguments.groups))
    turns_of = collections.defaultdict(list)
    for session in range(arguments.turns):
        for prompt in chosen:
            turn = {way: engine.answer(**WAYS[way][0], session=session, prompt=prompt["prompt"], n=arguments.n,
                                       temperature=arguments.temperature) for way in ways}
            turns_of[prompt["id"]].append(turn)
            print(session, prompt["group"], prompt["id"], turn["none"]["prompt_tokens"], len(turn["none"]["tokens"]),
                  *(f"{way} {turn['none']['seconds'] / turn[way]['seconds']:.2f}" for way in ways[1:]),
                  file=sys.stderr, flush=True)
    records = []
    for prompt in chosen:
        turns = turns_of[prompt["id"]]
        if len({tuple(answer["tokens"]) for turn in turns for answer in turn.values()}) != 1:
            sys.exit(f"{prompt['id']}: the texts differ")
        record = {"id": prompt["id"], "group": prompt["group"], "tokens": len(turns[0]["none"]["tokens"]),
                  "prompt_tokens": turns[0]["none"]["prompt_tokens"], "ways": {}}
        for way in ways:
            answers = [turn[way] for turn in turns]
            record["ways"][way] = {
                "seconds": statistics.median(answer["seconds"] for answer in answers),
                "ratio": statistics.median(turn["none"]["seconds"] / turn[way]["seconds"] for turn in turns),
                **{key: answers[-1][key] for key in ("rounds", "drafted", "accepted", "parts", "speculation")}}
        records.append(record)
    if arguments.output:
        measured.write(arguments.output, {**measured.origin(arguments.program), "target": arguments.target,
                                          "draft": arguments.draft, "n": arguments.n,
                                          "temperature": arguments.temperature, "turns": arguments.turns,
                                          "prompts": records})
    print(table(records, ways))


if __name__ == "__main__":
    main()
