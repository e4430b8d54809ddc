"""Forward passes of llama.cpp or ik_llama.cpp on request, through the low-level functions of their Python packages.

    python worker.py llama_cpp|ik_llama_cpp MODEL.gguf THREADS [--repack]

The same lines as bench.serve: `info`, `pass M TIMES`, `decode N`; one JSON object for each. Rows of up to 64 tokens
compute the output of each row, as a verification needs it; longer ones that of the last row only.
"""
import ctypes
import importlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time


def preload_ggml(package):
    """Compiled from source, libllama.so does not know where its libggml.so lies: it finds one that is loaded."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ImportError("not installed")
    library = pathlib.Path(spec.submodule_search_locations[0]) / "lib/libggml.so"
    if library.exists():
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)


class Engine:
    def __init__(self, package, path, threads, repack):
        lib = importlib.import_module(package)
        if package == "ik_llama_cpp":
            lib = importlib.import_module("ik_llama_cpp._ctypes_api")
            lib._lib.llama_print_system_info.restype = ctypes.c_char_p
            features = lib._lib.llama_print_system_info
            self.clear = lambda: lib.llama_kv_cache_clear(self.context)
        else:
            features = lib.llama_print_system_info
            self.clear = lambda: lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        self.lib = lib
        lib.llama_backend_init()
        model_params = lib.llama_model_default_params()
        if repack:
            model_params.repack_tensors = True
            model_params.use_mmap = False
        self.model = lib.llama_model_load_from_file(path.encode(), model_params)
        params = lib.llama_context_default_params()
        params.n_ctx = 1024
        params.n_batch = 512
        params.n_ubatch = 512
        params.n_threads = threads
        params.n_threads_batch = threads
        self.context = lib.llama_init_from_model(self.model, params)
        if not self.model or not self.context:
            sys.exit(f"{package} does not load {path}")
        self.batch = lib.llama_batch_init(512, 0, 1)
        self.info = {"version": importlib.metadata.version(package.replace("_", "-") + "-python"),
                     "features": features().decode(), "threads": threads, "repacked": repack}

    def forward(self, tokens, first, all_rows):
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = first + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = all_rows or i == len(tokens) - 1
        begin = time.perf_counter()
        if self.lib.llama_decode(self.context, batch) != 0:
            sys.exit("llama_decode failed")
        self.lib.llama_get_logits_ith(self.context, len(tokens) - 1)  # waits until it is computed
        return time.perf_counter() - begin

    def prompt(self, m):
        """Tokens per second of one pass with m tokens on an empty cache."""
        self.clear()
        return m / self.forward([100 + (i * 37) % 1000 for i in range(m)], 0, m <= 64)

    def decode(self, n):
        """Tokens per second of n passes with one token each. Filling the batch is not counted: it is Python's time."""
        self.clear()
        return n / sum(self.forward([100 + (i * 37) % 1000], i, True) for i in range(n))


def main():
    package, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    try:
        if package == "ik_llama_cpp":
            preload_ggml(package)
        importlib.import_module(package)
    except (ImportError, OSError) as error:
        sys.exit(f"{package}: {error}")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the libraries talk on both streams
    os.dup2(1, 2)
    engine = Engine(package, path, threads, "--repack" in sys.argv)
    for line in sys.stdin:
        verb, *numbers = line.split()
        if verb == "info":
            answer = engine.info
        elif verb == "pass":
            m, times = map(int, numbers)
            answer = {"tokens_per_second": statistics.median(engine.prompt(m) for _ in range(times))}
        elif verb == "decode":
            answer = {"tokens_per_second": engine.decode(int(numbers[0]))}
        else:
            answer = {"error": "not understood: " + line}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
