"""Forward passes of M tokens and plain decoding: foredraft beside llama.cpp and ik_llama.cpp, interleaved in one run.

    python3 bench/peers/compare.py -m MODEL.gguf --serve build/release/bench/bench.serve --python PYTHON [-t 2] [-r 9]
        [-o FILE]

PYTHON is one that has the peers: peers/install.py makes it.
Every engine is a process of its own. Test by test they take turns, so that a machine which changes its speed changes
it for all; ratios are taken turn by turn. A peer that was not built for this machine's instruction set is refused.
ik_llama.cpp runs twice, as loaded and with repacked weights; the better one of each test is what we are held to.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measured

ENGINES = {"llama.cpp": ["llama_cpp"],
           "ik_llama.cpp": ["ik_llama_cpp"],
           "ik_llama.cpp repacked": ["ik_llama_cpp", "--repack"]}

# What a peer says of itself, and what Linux calls it. llama.cpp lists only what it has, ik_llama.cpp all with 0 or 1.
NEEDED = {"AVX2": "avx2", "FMA": "fma", "F16C": "f16c", "AVX_VNNI": "avx_vnni", "AVX512": "avx512f",
          "AVX512_VNNI": "avx512_vnni", "AVX512_BF16": "avx512_bf16", "NEON": "asimd"}
# What only llama.cpp has code for.
NEEDED_OF_LLAMA = {"AMX_INT8": "amx_int8", "DOTPROD": "asimddp"}


def not_built_for_this_machine(engine, features):
    """Instruction sets that this machine has and the library was not built with."""
    needed = {**NEEDED, **NEEDED_OF_LLAMA} if engine == "llama.cpp" else NEEDED
    built = {part.split("=")[0].split(":")[-1].strip() for part in features.split("|")
             if part.split("=")[-1].strip() == "1"}
    return [name for name, flag in needed.items() if flag in measured.cpu_flags() and name not in built]


class Worker:
    """A process that answers lines with JSON objects."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.info = self.ask("info")

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline() or "null")
        except BrokenPipeError:
            answer = None
        if not answer or "error" in answer:
            raise RuntimeError(f"{self.name}: {answer or 'ended'} after `{line}`")
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def start(args):
    ours = Worker("foredraft", [args.serve, "-m", args.model, "-t", str(args.threads)])
    workers = [ours]
    script = pathlib.Path(__file__).with_name("worker.py")
    for name in args.engines.split(","):
        package, *options = ENGINES[name]
        command = [args.python, script, package, args.model, str(ours.info["threads"]), *options]
        try:
            worker = Worker(name, command)
        except RuntimeError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        missing = not_built_for_this_machine(name, worker.info["features"])
        if missing and not args.any_build:
            sys.exit(f"{name} was built without {', '.join(missing)}, which this machine has: install it from source "
                     "with CMAKE_ARGS=-DGGML_NATIVE=ON (--any-build to go on)")
        worker.info["lacks"] = missing  # of this machine's instruction sets
        workers.append(worker)
    return workers


def measure(workers, lengths, n, repetitions):
    """{test: {engine: [tokens/s]}} and the stream reads, [bytes/s]."""
    tests = {f"pp{m}": f"pass {m} {3 if m <= 16 else 1}" for m in lengths}
    tests[f"tg{n}"] = f"decode {n}"
    speeds = {test: {w.name: [] for w in workers} for test in tests}
    stream = []
    for turn in range(repetitions + 1):  # the first one warms up
        for test, line in tests.items():
            # Who comes first changes with the turn.
            for worker in workers[turn % len(workers):] + workers[:turn % len(workers)]:
                value = worker.ask(line)["tokens_per_second"]
                if turn > 0:
                    speeds[test][worker.name].append(value)
                time.sleep(0.02)  # until its threads sleep
        value = workers[0].ask("stream")["bytes_per_second"]
        if turn > 0:
            stream.append(value)
        print(f"\rturn {turn} of {repetitions}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return speeds, stream


def best_of(engines, speeds):
    """Turn by turn the greatest of several engines."""
    return [max(values) for values in zip(*(speeds[e] for e in engines))]


def ratio(a, b):
    return measured.summary([x / y for x, y in zip(a, b)])


def goals(speeds, stream, info, n):
    """K2 and K4, with what they are held to."""
    out = {}
    peers = [e for e in speeds[f"tg{n}"] if e != "foredraft"]
    groups = {"llama.cpp": ["llama.cpp"], "ik_llama.cpp": [e for e in peers if e.startswith("ik")]}
    for goal, test in (("K2", f"tg{n}"), ("K2_single_pass", "pp1"), ("K4", "pp512")):
        if test not in speeds:
            continue
        out[goal] = {name: ratio(speeds[test]["foredraft"], best_of(group, speeds[test]))
                     for name, group in groups.items() if set(group) <= set(peers) and group}
    if "pp8" in speeds:
        out["M8"] = {name: ratio(speeds["pp8"]["foredraft"], best_of(group, speeds["pp8"]))
                     for name, group in groups.items() if set(group) <= set(peers) and group}
    rates = [speed * info["weight_bytes"] for speed in speeds[f"tg{n}"]["foredraft"]]
    out["decoding_of_stream_read"] = ratio(rates, stream)
    return out


def print_tables(speeds, lengths, n, summary):
    median = statistics.median
    engines = list(speeds[f"tg{n}"])
    tests = list(speeds)
    print("tokens/s".ljust(24) + "".join(t.rjust(9) for t in tests))
    for engine in engines:
        print(engine.ljust(24) + "".join(f"{median(speeds[t][engine]):9.1f}" for t in tests))
    for engine in engines[1:]:
        print(f"ratio to {engine}".ljust(24)
              + "".join(f"{ratio(speeds[t]['foredraft'], speeds[t][engine])['median']:9.2f}" for t in tests))
    if 1 in lengths:
        for engine in engines:
            line = f"T(M)/T(1) {engine}".ljust(24)
            print(line + "".join(
                f"{m * median(a / b for a, b in zip(speeds['pp1'][engine], speeds[f'pp{m}'][engine])):9.2f}"
                for m in lengths if m <= 64))
    for goal, values in summary.items():
        for name, value in (values.items() if "median" not in values else [("", values)]):
            print(f"{goal} {name}: {value['median']:.3f} (p10 {value['p10']:.3f}, p90 {value['p90']:.3f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True, help="a GGUF file")
    parser.add_argument("--serve", required=True, help="the program bench.serve")
    parser.add_argument("--python", default=sys.executable, help="a Python that has the peers")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--any-build", action="store_true", help="accept peers of another instruction set")
    parser.add_argument("-t", "--threads", type=int, default=0, help="0: as many as the machine grants")
    parser.add_argument("-r", "--repetitions", type=int, default=9)
    parser.add_argument("-n", type=int, default=64)
    parser.add_argument("-p", default="1,2,4,8,16,512")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    lengths = [int(m) for m in args.p.split(",")]
    head = measured.origin(args.serve)
    workers = start(args)
    info = {w.name: w.info for w in workers}
    speeds, stream = measure(workers, lengths, args.n, args.repetitions)
    for worker in workers:
        worker.close()
    summary = goals(speeds, stream, info["foredraft"], args.n)
    print_tables(speeds, lengths, args.n, summary)
    result = {**head, "model": pathlib.Path(args.model).stem, "repetitions": args.repetitions, "engines": info,
              "goals": summary,
              "stream_read_GB_per_s": measured.summary([s * 1e-9 for s in stream]),
              "tokens_per_second": {t: {e: measured.summary(v) for e, v in by.items()} for t, by in speeds.items()}}
    if args.output:
        measured.write(args.output, result)


if __name__ == "__main__":
    main()
