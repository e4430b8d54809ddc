"""Expected acceptance of every rule on the prompts of bench/prompts: python3 bench/acceptance/write_results.py
build/release/bench/bench.expected_acceptance [options of the program]

Writes bench/results/acceptance-TARGET-DRAFT.json and prints the tables of it as Markdown. Nothing here depends on how
quick the machine is.
"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measured

NAMES = {("match", "argmax"): "`SampleAndMatch`, best tokens",
         ("match", "drawn"): "`SampleAndMatch`, drawn on its own",
         ("match", "coupled"): "`SampleAndMatch`, coupled",
         ("rejection", "argmax"): "`RejectionSampling`, best tokens",
         ("rejection", "drawn"): "`RejectionSampling`, drawn",
         ("block", "drawn"): "`BlockVerification`, drawn"}


def table(result, depth):
    """One row for each rule: drafts accepted a round, and the share of rounds that accept at least i."""
    lines = ["| temperature " + f"{result['temperature']:g}, {result['rounds']} rounds | accepted | "
             + " | ".join(f"at least {i}" for i in range(1, depth + 1)) + " | counted |",
             "|---|" + "---:|" * (depth + 2)]
    for method in result["methods"]:
        lines.append(f"| {NAMES[method['rule'], method['drafts']]} | {method['accepted']:.2f} ± "
                     f"{method['standard_error']:.2f} | " + " | ".join(f"{x:.3f}" for x in method["reached"])
                     + f" | {method['counted']:.2f} ± {method['counted_standard_error']:.2f} |")
    return "\n".join(lines)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = pathlib.Path(sys.argv[1]).resolve()
    # Before the run, which takes long enough for a commit to come in between.
    origin = measured.origin(program)
    run = subprocess.run([program, *sys.argv[2:]], cwd=measured.ROOT, check=True, stdout=subprocess.PIPE, text=True)
    out = json.loads(run.stdout)
    origin["machine"].update(out.pop("machine"))
    out = {**origin, "arguments": " ".join(sys.argv[2:]), **out}
    measured.write(measured.RESULTS / f"acceptance-{out['target']}-{out['draft']}.json", out)
    for result in out["results"]:
        print(table(result, out["settings"]["depth"]), end="\n\n")


if __name__ == "__main__":
    main()
