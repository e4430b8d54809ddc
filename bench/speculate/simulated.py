"""Decoding with and without draft models on machines whose passes bench.goals has measured, without a clock's noise:

    python3 bench/speculate/simulated.py --program build/release/bench/bench.simulated

Writes bench/results/simulated-TARGET.json. The same program on the same files gives the same numbers, but for instruction
sets whose last bits decide another token. Other work may run beside it. Texts have to be equal on all machines and with
every draft model; the status is 1 where they are not.
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measured

MACHINES = ("zen5", "granite-rapids", "zen3")
# A pass of the draft model as the program loads it, in passes of the 1.5b: near what it takes on a Zen 5.
DRAFTS = {"": 0.0, "qwen2.5-coder-0.5b": 0.25, "smollm2-135m": 0.1}
WRONG = "always wrong"  # in their place, and that of all drafters
ADDED = "no draft model, more n-grams"  # drafters that auto leaves out
N_GRAMS = "ngram-simple,ngram-map-k,ngram-map-k4v,ngram-mod"


def answers(args, draft):
    """All answers with a draft model or without, with drafters added, or with one that is always wrong."""
    passes = [measured.RESULTS / machine / f"goals-{args.target}.json" for machine in args.machines]
    command = [args.program, "-m", args.target, "--prompts", args.prompts, "--limit", str(args.limit), "-n",
               str(args.max_tokens), "-t", str(args.threads), "--passes", *passes]
    if draft == WRONG:
        command.append("--wrong")
    elif draft == ADDED:
        command += ["--add", N_GRAMS]
    elif draft:
        command += ["-d", draft, "--step", str(DRAFTS[draft])]
    done = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            one = json.loads(line)
            print(f"{draft or 'no draft model'}, {one['machine']}, {one['group']} {one['id']}: {one['ratio']:.3f}",
                  file=sys.stderr, flush=True)
            done.append(one)
    if running.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with status {running.returncode}")
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=measured.ROOT / "build/release/bench/bench.simulated", type=pathlib.Path)
    parser.add_argument("--results", default=measured.RESULTS, type=pathlib.Path, help="folder of the result file")
    parser.add_argument("--prompts", default=measured.ROOT / "bench/prompts/dev.jsonl", type=pathlib.Path)
    parser.add_argument("--target", default="qwen2.5-coder-1.5b")
    parser.add_argument("--machines", nargs="*", default=MACHINES, help="folders of bench/results")
    parser.add_argument("--limit", type=int, default=2, help="prompts of each group; 0: all")
    parser.add_argument("-n", "--max-tokens", type=int, default=128)
    parser.add_argument("-t", "--threads", type=int, default=1, help="of one process")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="draft models at a time, each in a process of its own")
    args = parser.parse_args()
    head = measured.origin(args.program)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        drafts = [*DRAFTS, ADDED, WRONG]
        of_draft = dict(zip(drafts, pool.map(lambda draft: answers(args, draft), drafts)))
    prompts, texts, differ = {}, {}, []
    for draft, done in of_draft.items():
        for one in done:
            if texts.setdefault(one["id"], one["tokens"]) != one["tokens"]:
                differ.append(f"{one['id']}, {draft or 'no draft model'}, {one['machine']}")
            record = prompts.setdefault(one["id"], {"id": one["id"], "group": one["group"],
                                                    "prompt_tokens": one["prompt_tokens"],
                                                    "tokens": len(one["tokens"]), "machines": {}})
            record["machines"].setdefault(one["machine"], {})[draft] = {
                key: one[key] for key in ("ratio", "rounds", "drafted", "accepted")}
    if differ:
        sys.exit("texts differ: " + "; ".join(differ))
    measured.write(args.results / f"simulated-{args.target}.json",
                   {**head, "target": args.target, "steps": DRAFTS, "prompts": list(prompts.values())})


if __name__ == "__main__":
    main()
