"""Expected acceptance of every rule on the prompts of bench/prompts: python3 bench/acceptance/write_results.py
build/release/bench/bench.expected_acceptance [options of the program]

Writes bench/results/acceptance-TARGET-DRAFT.json and prints the tables of it as Markdown. Nothing here depends on how
quick the machine is.
"""
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

NAMES = {("match", "argmax"): "`SampleAndMatch`, best tokens",
         ("match", "drawn"): "`SampleAndMatch`, drawn on its own",
         ("match", "coupled"): "`SampleAndMatch`, coupled",
         ("rejection", "argmax"): "`RejectionSampling`, best tokens",
         ("rejection", "drawn"): "`RejectionSampling`, drawn",
         ("block", "drawn"): "`BlockVerification`, drawn"}


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


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
    root = pathlib.Path(__file__).resolve().parents[2]
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = pathlib.Path(sys.argv[1]).resolve()

    def git(*words):
        return subprocess.run(["git", "--no-optional-locks", *words], cwd=root, capture_output=True,
                              text=True).stdout.strip()

    # Before the run, which takes long enough for a commit to come in between.
    commit = git("rev-parse", "--short", "HEAD") + ("-dirty" if git("status", "--porcelain") else "")
    run = subprocess.run([program, *sys.argv[2:]], cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    out = json.loads(run.stdout)
    out = {"date": datetime.date.today().isoformat(), "commit": commit,
           "target": out["target"], "draft": out["draft"], "settings": out["settings"],
           "flags": " ".join(sys.argv[2:]),
           "machine": {"cpu": cpu_name(), "cores": os.cpu_count(), **out["machine"]}, "results": out["results"]}
    name = f"acceptance-{out['target']}-{out['draft']}.json"
    (root / "bench/results" / name).write_text(json.dumps(out, indent=1) + "\n")
    for result in out["results"]:
        print(table(result, out["settings"]["depth"]), end="\n\n")


if __name__ == "__main__":
    main()
