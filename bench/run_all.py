"""Measure everything: python3 bench/run_all.py --results FOLDER --build build/release [--peers-python PYTHON]

Writes FOLDER/{micro,proposals,loading,isas,goals-MODEL,bench-MODEL,peers-MODEL,perplexity-MODEL}.json. Plots go to FOLDER/images
and tables to standard output; if FOLDER is bench/results/MACHINE, into docs/design/images/MACHINE and the tables of
the pages under docs/design that name it. Nothing else may run meanwhile. A step that fails is reported and left out; the
others go on. About 30 minutes for three models. Plots and tables are made at the end whatever the steps were, so that
they always show the same files; `--steps plots` makes nothing else.

PYTHON is one that has the peers and, for the plots, matplotlib: peers/install.py makes it. bench/run.sh does all of it.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import measured

HERE = pathlib.Path(__file__).resolve().parent
STEPS = ("micro", "proposals", "loading", "goals", "isas", "bench", "peers", "perplexity", "plots")
ISAS = ("portable", "avx2", "avx-vnni", "avx512", "avx512-vnni", "amx", "neon")
MATMUL_FILTER = "(memory/8960x1536|cache/256x1536)/[A-Z0-9_]+/(1|4|8|512)/"


def model_file(name):
    """The file behind a model's name, as the program `foredraft` finds it."""
    if os.path.exists(name):
        return pathlib.Path(name)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "foredraft/models"
    for folder in (os.environ.get("FOREDRAFT_MODELS"), cache):
        if folder and (pathlib.Path(folder) / f"{name}.gguf").exists():
            return pathlib.Path(folder) / f"{name}.gguf"
    raise FileNotFoundError(f"no model {name}: python3 examples/fetch_model.py {name}")


def run_json(command):
    print("+", " ".join(map(str, command)), file=sys.stderr, flush=True)
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=3600).stdout
    return json.loads(out)


def micro(args):
    """Median, p10 and p90 of every operator over repetitions."""
    programs = args.build / "bench"
    head = measured.origin(programs / "bench.matmul")
    benchmarks = {}
    chosen = [("operators", args.filter)] if args.filter else [("matmul", MATMUL_FILTER + "|peak"), ("operators", ".")]
    for program, pattern in chosen:
        out = run_json([programs / f"bench.{program}", f"--benchmark_filter={pattern}", "--benchmark_format=json",
                        f"--benchmark_repetitions={3 if args.quick else 7}",
                        f"--benchmark_min_time={0.02 if args.quick else 0.1}"])
        head["isa"] = out["context"]["isa"]
        for run in out["benchmarks"]:
            if run["run_type"] != "iteration" or run["name"].startswith("peak") and program == "operators":
                continue
            one = benchmarks.setdefault(run["run_name"].replace("/real_time", ""), {})
            one.setdefault("time_ns", []).append(run["real_time"])
            for counter in ("GB/s", "GMAC/s", "of_stream", "of_peak", "threads", "drafted", "kept", "items_per_second"):
                if counter in run:
                    one.setdefault(counter, []).append(run[counter])
    for one in benchmarks.values():
        for name, values in one.items():
            one[name] = {k: v for k, v in measured.summary(values).items() if k != "values"} if len(set(values)) > 1 \
                else values[0]
    measured.write(args.results / "micro.json", {**head, "benchmarks": benchmarks})


def proposals(args):
    """Of each number the median of several processes."""
    program = args.build / "bench/bench.proposals"
    head = measured.origin(program)
    results = [run_json([program]) for _ in range(2 if args.quick else 5)]
    measured.write(args.results / "proposals.json", {**head, "processes": len(results), **measured.medians(results)})


def loading(args):
    """Seconds of loading, from the model's file and from a packed one, and of a whole start of the program."""
    program = args.build / "bench/bench.loading"
    foredraft = args.build / "foredraft"
    repetitions = 2 if args.quick else 9
    head = measured.origin(program)
    result = {**head, **run_json([program, "--formats", "-r", str(repetitions)]), "models": {}}
    for model in args.models:
        # A link, so that nothing is written beside the model; on the same disk as it may be.
        with tempfile.TemporaryDirectory(dir=args.build) as folder:
            file = pathlib.Path(folder) / f"{model_file(model).stem}.gguf"
            file.symlink_to(model_file(model).resolve())
            one = run_json([program, "-m", file, "-t", str(args.threads), "-r", str(repetitions), "--packed",
                            f"{file}.packed"])
            starts = {"packs": [], "maps": []}
            for turn in range(repetitions + 1):
                for kind, options in (("packs", []), ("maps", ["--keep-packed"])):
                    begin = time.perf_counter()
                    done = subprocess.run([foredraft, "generate", "-m", file, "-p", "Hello", "-n", "1", "-t",
                                           str(args.threads), *options], check=True, capture_output=True, timeout=600)
                    if b"packed weights" in done.stderr:
                        raise ValueError("the packed file was not mapped: " + done.stderr.decode(errors="replace"))
                    if turn > 0:
                        starts[kind].append(time.perf_counter() - begin)
            one["seconds_generate_1"] = {kind: measured.summary(values) for kind, values in starts.items()}
            result["models"][one["model"]] = one
            result["isa"], result["threads"] = one["isa"], one["threads"]
    measured.write(args.results / "loading.json", result)


def goals(args):
    program = args.build / "bench/bench.goals"
    for model in args.models:
        head = measured.origin(program)
        out = run_json([program, "-m", model, "-t", str(args.threads), "-r", "2" if args.quick else "9",
                        *(["--rows", "1,4,8"] if args.quick else []), *(["--isa", args.isa] if args.isa else [])])
        measured.write(args.results / f"goals-{out['model']}.json", {**head, **out})


def isas(args):
    """Forward passes of the first model with every instruction set that this machine executes, in turns."""
    program = args.build / "foredraft"
    result = {**measured.origin(program), "model": args.models[0], "isas": {}}
    for turn in range(2 if args.quick else 5):
        for isa in ISAS if turn == 0 else list(result["isas"]):
            command = [program, "bench", "-m", args.models[0], "-p", "1,4,8,16,128", "-n", "16", "-t",
                       str(args.threads), "-r", "1", "-o", "json", "--isa", isa]
            try:
                out = run_json(command)
            except subprocess.CalledProcessError as error:
                if error.returncode != 2:
                    raise
                continue  # a set that this machine lacks, as the program has said
            speeds = result["isas"].setdefault(isa, {})
            for one in out["results"]:
                speeds.setdefault(one["test"], []).append(one["median"])
            result["isa"], result["threads"] = isa, out["machine"]["threads"]
    for isa, speeds in result["isas"].items():
        result["isas"][isa] = {test: measured.summary(values) for test, values in speeds.items()}
    measured.write(args.results / "isas.json", result)


def bench(args):
    """What anyone sees who runs `foredraft bench`."""
    program = args.build / "foredraft"
    for model in args.models:
        head = measured.origin(program)
        out = run_json([program, "bench", "-m", model, "-p", "1,2,4,8,16,512", "-n", "64", "-t", str(args.threads),
                        "-r", "2" if args.quick else "5", "-o", "json"])
        name = model_file(model).stem
        measured.write(args.results / f"bench-{name}.json",
                       {**head, "model": name, "isa": out["machine"]["isa"], "threads": out["machine"]["threads"],
                        "results": out["results"]})


def peers(args):
    for model in args.models:
        path = model_file(model)
        subprocess.run([args.peers_python, HERE / "peers/compare.py", "-m", path, "--serve",
                        args.build / "bench/bench.serve", "-t", str(args.threads), "-r", "2" if args.quick else "9",
                        *(["--any-build"] if args.any_build else []),
                        "-o", args.results / f"peers-{path.stem}.json"], check=True, timeout=7200)


def perplexity(args):
    program = args.build / "bench/bench.perplexity"
    for model in args.perplexity_models:
        head = measured.origin(program)
        out = run_json([program, "-m", model, "-f", HERE / "data/text.txt", "-t", str(args.threads),
                        "--reference", str(args.reference), *(["-n", "1024"] if args.quick else [])])
        measured.write(args.results / f"perplexity-{out['model']}.json", {**head, **out})


def plots(args):
    published = args.results.parent == measured.RESULTS
    subprocess.run([args.peers_python, HERE / "plots.py", *([] if published else [args.results])], check=True, timeout=600)
    subprocess.run([sys.executable, HERE / "tables.py", *([] if published else [args.results])], check=True, timeout=60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=measured.ROOT / "build/release", help="build folder")
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--models", default="qwen2.5-coder-1.5b,qwen2.5-coder-0.5b,smollm2-135m")
    parser.add_argument("--perplexity-models", default="smollm2-135m,qwen2.5-coder-0.5b")
    parser.add_argument("--steps", default=",".join(STEPS))
    parser.add_argument("--filter", help="a regular expression: of the step micro these operators alone")
    parser.add_argument("-t", "--threads", type=int, default=0, help="0: as many as the machine grants")
    parser.add_argument("--isa", help="instruction set of the step goals [the widest there is]")
    parser.add_argument("--reference", type=int, default=256, help="tokens of the slow reference backend; 0: none")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="folder of the result files; "
                        "bench/results/MACHINE publishes them")
    parser.add_argument("--any-build", action="store_true", help="accept peers of another instruction set; the result "
                        "files say what they lack")
    parser.add_argument("--quick", action="store_true", help="few repetitions, to try the scripts")
    args = parser.parse_args()
    args.models = args.models.split(",")
    args.perplexity_models = args.perplexity_models.split(",")
    args.results = args.results.resolve()
    args.results.mkdir(parents=True, exist_ok=True)
    busy = measured.busy()
    if busy > 0.05:
        print(f"warning: {100 * busy:.0f} % of the machine is busy with something else", file=sys.stderr)
    failed = []
    functions = dict(zip(STEPS, (micro, proposals, loading, goals, isas, bench, peers, perplexity, plots)))
    chosen = [step for step in args.steps.split(",") if step != "plots"]
    for step in [*chosen, "plots"]:
        try:
            functions[step](args)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            print(f"{step}: {error}", file=sys.stderr)
            failed.append(step)
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
