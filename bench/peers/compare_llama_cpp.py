"""Forward passes of M tokens and plain decoding: foredraft beside llama.cpp, interleaved in one run.

    pip install --no-binary llama-cpp-python llama-cpp-python     (CMAKE_ARGS=-DGGML_NATIVE=ON: for this machine)
    python bench/peers/compare_llama_cpp.py -m MODEL.gguf --foredraft build/release/foredraft [-t 2] [-r 5] [-o FILE]

Each repetition runs every test once in both engines, so that a machine which changes its speed changes it for both. The
table shows medians; the JSON has all values. Rows of up to 64 tokens compute the output of each row in both engines, as
a verification needs it; longer ones that of the last row only (llama.cpp) or of none (foredraft).
"""
import argparse
import ctypes
import datetime
import json
import platform
import statistics
import subprocess
import sys
import time


class LlamaCpp:
    """llama.cpp through the low-level functions of llama-cpp-python."""

    def __init__(self, path, threads):
        import llama_cpp

        self.lib = llama_cpp
        self.version = llama_cpp.__version__
        quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
        self.quiet = quiet
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), model_params)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = 1024
        params.n_batch = 512
        params.n_ubatch = 512
        params.n_threads = threads
        params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.batch = llama_cpp.llama_batch_init(512, 0, 1)
        self.features = llama_cpp.llama_print_system_info().decode()

    def forward(self, tokens, first, all_rows):
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = first + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = all_rows or i == len(tokens) - 1
        if self.lib.llama_decode(self.context, batch) != 0:
            sys.exit("llama_decode failed")

    def clear(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)

    def prompt(self, m):
        """Tokens per second of one pass with m tokens on an empty cache."""
        self.clear()
        tokens = [100 + (i * 37) % 1000 for i in range(m)]
        begin = time.perf_counter()
        self.forward(tokens, 0, m <= 64)
        return m / (time.perf_counter() - begin)

    def generate(self, n):
        """Tokens per second of n passes with one token each."""
        self.clear()
        begin = time.perf_counter()
        for i in range(n):
            self.forward([100 + (i * 37) % 1000], i, True)
        return n / (time.perf_counter() - begin)


def foredraft(program, model, threads, lengths, n):
    """One repetition of `foredraft bench`: {test: tokens per second} and what it says of the machine."""
    command = [program, "bench", "-m", model, "-p", ",".join(map(str, lengths)), "-n", str(n), "-r", "1",
               "-t", str(threads), "-o", "json"]
    out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {r["test"]: r["tokens_per_second"] for r in out["results"]}, out["machine"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--foredraft", required=True)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-n", type=int, default=32)
    parser.add_argument("-p", default="1,2,4,8,16,512")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    lengths = [int(m) for m in args.p.split(",")]
    peer = LlamaCpp(args.model, args.threads)
    tests = [f"pp{m}" for m in lengths] + [f"tg{args.n}"]
    ours, theirs = {t: [] for t in tests}, {t: [] for t in tests}
    machine = {}
    for repetition in range(args.repetitions + 1):  # the first one warms up
        values, machine = foredraft(args.foredraft, args.model, args.threads, lengths, args.n)
        if repetition > 0:
            for test in tests:
                ours[test].append(values[test])
        for m in lengths:
            value = statistics.median(peer.prompt(m) for _ in range(3 if m <= 16 else 1))
            if repetition > 0:
                theirs[f"pp{m}"].append(value)
        value = peer.generate(args.n)
        if repetition > 0:
            theirs[f"tg{args.n}"].append(value)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    result = {"date": datetime.date.today().isoformat(), "commit": commit, "model": args.model.split("/")[-1],
              "threads": args.threads, "machine": machine, "python": platform.python_version(),
              "llama_cpp_python": peer.version, "llama_cpp_features": peer.features,
              "tokens_per_second": {"foredraft": ours, "llama.cpp": theirs}}
    median = statistics.median
    print(f"{'test':>8} {'foredraft':>10} {'llama.cpp':>10} {'ratio':>6}   T(M)/T(1): foredraft, llama.cpp")
    for test in tests:
        line = f"{test:>8} {median(ours[test]):10.1f} {median(theirs[test]):10.1f} " \
               f"{median(a / b for a, b in zip(ours[test], theirs[test])):6.2f}"
        if test.startswith("pp") and "pp1" in tests:
            m = int(test[2:])
            line += f"   {m * median(ours['pp1']) / median(ours[test]):6.2f} " \
                    f"{m * median(theirs['pp1']) / median(theirs[test]):6.2f}"
        print(line)
    if args.output:
        with open(args.output, "w") as file:
            json.dump(result, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
