"""The program foredraft as a user meets it: python3 cli_test.py PROGRAM"""

import csv
import itertools
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import unittest

import support
import tiny_gguf
from support import CliTest, real_model, run_on_terminal, wait_for_handler

HERE = pathlib.Path(__file__).resolve().parent


class Help(CliTest):
    def test_version_and_help(self):
        self.assertRegex(self.succeeds("--version").stdout, r"^foredraft \d+\.\d+\.\d+\n$")
        self.assertIn("generate", self.succeeds("--help").stdout)
        text = self.succeeds("generate", "--help").stdout
        for option in ("-md,--model-draft", "--spec-draft-n-max", "--spec-acceptance", "--seed", "--raw", "--samples",
                       "--logprobs", "--draft-temp", "--quantize-draft", "--draft-vocab", "--draft-vocab-counts",
                       "--device-draft", "--repeat-penalty", "--repeat-last-n", "--keep-packed", "-ctk,--cache-type-k",
                       "-ctv,--cache-type-v", "-ctkd,--cache-type-k-draft", "-ctvd,--cache-type-v-draft"):
            self.assertIn(option, text)

    def test_defaults_of_draft_models(self):
        """Which option switches which default off."""
        for command in ("generate", "chat", "tune"):
            text = " ".join(self.succeeds(command, "--help").stdout.split())
            self.assertIn("[q4_0, where neither --draft-vocab nor --keep-packed is given]", text)
            self.assertIn("[32768 of a large vocabulary, where neither --quantize-draft nor --keep-packed is given]", text)


class Usage(CliTest):
    """Status 2, a hint, nothing on stdout, and no model is needed to say so."""

    def test_grid(self):
        generate = ("generate", "-m", self.alphabet(), "-p", "a")
        for expected, arguments in [
            ("found no command; expected one of generate, batch, chat, serve, inspect", ()),
            ("'generat'", ("generat", "-p", "a")),
            ("'--colour'", ("--colour",)),
            ("--help", ("generate", "--colour")),
            ("incomplete arguments: --model", ("generate", "-p", "a")),
            ("--model", (*generate, "-m", "x")),
            ("no text", ("generate", "-m", "x")),
            ("no text", ("tokenize", "-m", "x")),
            ("both -p and -f", ("logits", "-m", "x", "-p", "a", "-f", "b")),
            ("found --temp = warm; expected a number", (*generate, "--temp", "warm")),
            ("found -ngl; expected", (*generate, "-ngl", "99")),
            ("found -ctkx; expected", ("generate", "-ctkx", "q8_0", "-m", "x", "-p", "a")),
            ("temperature", (*generate, "--temp", "-1")),
            ("temperature", (*generate, "--temp", "nan")),
            ("temperature above 0", (*generate, "--top-k", "5")),
            ("temperature above 0", (*generate, "--temp", "0", "--top-p", "0.9")),
            ("temperature above 0", (*generate, "--min-p", "0.1")),
            ("top_p", (*generate, "--temp", "1", "--top-p", "1.5")),
            ("--top-k -1; expected a whole number from 0", (*generate, "--temp", "1", "--top-k", "-1")),
            ("--top-k 99999999999; expected a whole", (*generate, "--temp", "1", "--top-k", "99999999999")),
            ("--seed -1; expected a whole number from 0", (*generate, "--temp", "1", "--seed", "-1")),
            ("to 18446744073709551615", (*generate, "--temp", "1", "--seed", str(2**64))),
            ("--seed 1e3; expected a whole number", (*generate, "--temp", "1", "--seed", "1e3")),
            ("--seed at temperature 0", (*generate, "--seed", "7")),
            ("--seed at temperature 0", (*generate, "--seed", "0", "--temp", "0")),
            ("rejection at temperature 0", (*generate, "--spec-acceptance", "rejection")),
            ("block at temperature 0", (*generate, "--spec-acceptance", "block", "-md", "x")),
            ("match with --spec-type none", (*generate, "--spec-acceptance", "match", "--spec-type", "none")),
            ("rejection with --spec-type none",
             (*generate, "--temp", "1", "--spec-acceptance", "rejection", "--spec-type", "none")),
            ("--model-draft with an empty name", (*generate, "-md", "")),
            ("--draft-vocab-counts with an empty name",
             (*generate, "-md", "x", "--draft-vocab", "100", "--draft-vocab-counts", "")),
            ("add -md", (*generate, "--spec-type", "draft")),
            ("no draft model", (*generate, "--spec-type", "none", "-md", "x")),
            ("no draft model", (*generate, "--spec-type", "lookup", "-md", "x")),
            ("no draft model", (*generate, "--spec-type", "ngram-simple", "-md", "x")),
            ("--spec-type", (*generate, "--spec-type", "medusa")),
            ("--spec-acceptance", (*generate, "--spec-acceptance", "hope")),
            ("leave one of them out", (*generate, "--spec-type", "none", "--spec-draft-n-max", "4")),
            ("1 to 63", (*generate, "--spec-draft-n-max", "0")),
            ("1 to 63", (*generate, "--spec-draft-n-max", "64")),
            ("1 to 63", (*generate, "--spec-draft-n-max", "1000000")),
            ("1 to 32", (*generate, "--spec-lookup-min", "1000000")),
            ("1 to 64", (*generate, "--spec-type", "ngram-map-k4v", "--spec-ngram-min-hits", "1000000")),
            ("--cache-type-k", (*generate, "-ctk", "q3_0", "-ctv", "q3_0")),
            ("--cache-type-v-draft", (*generate, "-md", "x", "-ctvd", "q3_0")),
            ("--cache-type-k q8_0 with heads of", (*generate, "-ctk", "q8_0", "-ctv", "q8_0")),
            ("--cache-type-v q8_0 with heads of", (*generate, "-ctv", "q8_0")),
            ("--cache-type-k-draft without a draft model", (*generate, "-ctkd", "f16")),
            ("--cache-type-v-draft without a draft model", (*generate, "-ctvd", "q8_0")),
            ("temperature above 0", (*generate, "--samples", "2")),
            ("--samples", (*generate, "--samples", "0", "--temp", "1")),
            ("2^64 - 1", (*generate, "--samples", "2", "--temp", "1", "--seed", str(2**64 - 1))),
            ("--logprobs", (*generate, "--logprobs", "-1")),
            ("at most the 258 tokens", (*generate, "--logprobs", "259")),
            ("add -md", (*generate, "--draft-temp", "0.5", "--temp", "1")),
            ("add -md", (*generate, "--draft-temp", "0.5", "--temp", "1", "--spec-type", "none")),
            ("--draft-temp at temperature 0", (*generate, "--draft-temp", "0.5", "-md", "x")),
            ("--draft-temp -1", (*generate, "--draft-temp", "-1", "--temp", "1", "-md", "x")),
            ("--draft-temp inf", (*generate, "--draft-temp", "inf", "--temp", "1", "-md", "x")),
            ("--quantize-draft without a draft model", (*generate, "--quantize-draft", "q4_0")),
            ("--quantize-draft", (*generate, "--quantize-draft", "q4_k", "-md", "x")),
            ("--draft-vocab without a draft model", (*generate, "--draft-vocab", "100")),
            ("--draft-vocab", (*generate, "--draft-vocab", "0", "-md", "x")),
            ("--draft-vocab-counts without a draft", (*generate, "--draft-vocab-counts", "x")),
            ("add --draft-vocab N", (*generate, "--draft-vocab-counts", "x", "-md", "x")),
            ("3 to 257", (*generate, "--draft-vocab", "2", "-md", self.twin(self.alphabet()))),
            ("3 to 257", (*generate, "--draft-vocab", "258", "-md", self.twin(self.alphabet()))),
            ("3 to 257", (*generate, "--draft-vocab", str(2**31 - 1), "-md", self.twin(self.alphabet()))),
            ("repeat_penalty 0", (*generate, "--repeat-penalty", "0")),
            ("from -1000 to 1000", (*generate, "--presence-penalty", "inf")),
            ("from -1000 to 1000", (*generate, "--frequency-penalty", "nan")),
            ("--repeat-last-n without a penalty", (*generate, "--repeat-last-n", "8")),
            ("--repeat-last-n without a penalty", (*generate, "--repeat-last-n", "64")),
            ("--repeat-last-n -2", (*generate, "--repeat-penalty", "1.5", "--repeat-last-n", "-2")),
            ("--draft-max is --spec-draft-n-max now", (*generate, "--draft-max", "4")),
            ("--draft is --spec-draft-n-max now", (*generate, "--draft=4")),
            ("foredraft bench --help", ("bench", "-m", "x", "--draft", "4")),
            ("--repeat-last-n 0", (*generate, "--repeat-penalty", "1.5", "--repeat-last-n", "0")),
            ("--predict -2", (*generate, "-n", "-2")),
            ("--predict 99999999999; expected a whole number from -1", (*generate, "-n", "99999999999")),
            ("--threads -1; expected a whole number from 0 to 1024", (*generate, "-t", "-1")),
            ("from 0 to 1024", (*generate, "-t", "1025")),
            ("--ctx-size -1; expected a whole number from 0 to 2147483647;", (*generate, "-c", "-1")),
            ("-c 513", (*generate, "-c", "513")),
            ("-c 513", ("inspect", self.alphabet(), "-c", "513")),
            ("-c 2147483647; expected at most the 512", ("inspect", self.alphabet(), "-c", str(2**31 - 1))),
            ("--ctx-size 0", ("inspect", self.alphabet(), "-c", "0")),
            ("--isa", (*generate, "--isa", "mmx")),
            ("--device tpu; expected one of cpu, cuda", (*generate, "--device", "tpu")),
            ("--isa with --device cuda", (*generate, "--device", "cuda", "--isa", "portable")),
            ("--keep-packed with --device cuda", (*generate, "--device", "cuda", "--keep-packed")),
            ("-t with --device cuda", (*generate, "--device", "cuda", "-t", "1")),
            ("--spec-type self with --device cuda", (*generate, "--device", "cuda", "--spec-type", "self")),
            ("--device tpu; expected one of cpu, cuda", ("bench", "-m", "x", "--device", "tpu")),
            ("--isa with --device cuda", ("bench", "-m", "x", "--device", "cuda", "--isa", "portable")),
            ("--keep-packed with --device cuda", ("bench", "-m", "x", "--device", "cuda", "--keep-packed")),
            ("-t with --device cuda", ("bench", "-m", "x", "--device", "cuda", "-t", "1")),
            ("--device-draft without a draft model", (*generate, "--device-draft", "cuda")),
            ("--device-draft without a draft model", (*generate, "--device-draft", "cpu")),
            ("--device-draft tpu; expected one of", (*generate, "--device-draft", "tpu", "-md", "x")),
            ("-t with --device cuda", (*generate, "--device", "cuda", "--device-draft", "cuda", "-md", "x", "-t", "1")),
            ("--keep-packed with --device", (*generate, "--device", "cuda", "--device-draft", "cuda", "-md", "x",
                                             "--keep-packed")),
            ("--spec-type self with --device cuda", (*generate, "--device", "cuda", "-md", "x", "--spec-type",
                                                     "self,draft")),
            ("--top", ("logits", "-m", "x", "-p", "a", "--top", "0")),
            ("--top 259; expected at most the 258", ("logits", "-m", self.alphabet(), "-p", "a", "--top", "259")),
            ("sizes", ("bench", "-m", "x", "-p", "8,")),
            ("sizes", ("bench", "-m", "x", "-p", "8-4")),
            ("no test", ("bench", "-m", "x", "-p", "0", "-n", "0")),
            ("--output", ("bench", "-m", "x", "-o", "xml")),
        ]:
            with self.subTest(arguments=arguments[-4:]):
                done = self.fails(2, expected, *arguments)
                self.assertRegex(done.stderr, r"^foredraft: error: \[invalid-option\] found .+; expected .+; hint: .+\n$")
                self.assertLess(len(done.stderr), 400)


class BadFiles(CliTest):
    """Status 1 with the code of the error."""

    def fails(self, status, expected, *arguments, **options):
        """Every error has something to try."""
        done = super().fails(status, expected, *arguments, **options)
        self.assertRegex(done.stderr, r"\nforedraft: error: .*; hint: |^foredraft: error: .*; hint: ")
        return done

    def test_a_gpu_that_is_not_there(self):
        """With CUDA or without: one sentence before the model is read. Nothing to see where there is a GPU."""
        if shutil.which("nvidia-smi"):
            self.skipTest("there may be a GPU")
        generate = ("generate", "-m", self.alphabet(), "-p", "a")
        draft = ("-md", self.twin(self.alphabet()), "--quantize-draft", "q4_0")
        target, both = ("--device", "cuda"), ("--device", "cuda", "--device-draft", "cuda")
        for hint, arguments in [
            ("cpu", (*generate, *target)),
            ("cpu", (*generate, *target, "--cache-type-k", "f32")),
            ("cpu", (*generate, *target, *draft, "-t", 1)),
            ("cpu and --device-draft cpu", (*generate, *both, *draft)),
            ("-draft cpu", (*generate, "--device-draft", "cuda", *draft, "-ctvd", "f32")),
            ("-draft cpu", (*generate, "--device-draft", "cuda", *draft, "-t", 1, "--keep-packed")),
            ("cpu", ("chat", "-m", self.alphabet(), "--chat-format", "chatml", *target)),
            ("-draft cpu", ("chat", "-m", self.alphabet(), "--chat-format", "chatml", "--device-draft", "cuda", *draft)),
            ("cpu", ("bench", "-m", self.alphabet(), *target)),
        ]:
            with self.subTest(arguments=arguments):
                done = self.fails(1, "[device] found", *arguments)
                self.assertRegex(done.stderr, rf"use --device ?{hint}\n$")
                self.assertNotIn("loading", done.stderr)

    def test_what_a_gpu_cannot_store(self):
        """Refused whether there is a GPU or not."""
        q8_0 = ("--cache-type-k-draft", "q8_0", "--cache-type-v-draft", "q8_0")
        done = self.fails(2, "--cache-type-k-draft q8_0 with heads of", "generate", "-m", self.alphabet(), "-p", "a",
                          "-md", self.twin(self.alphabet()), "--quantize-draft", "q4_0", "--device-draft", "cuda", *q8_0)
        self.assertNotIn("loading", done.stderr)

    def test_paths(self):
        secret = self.write("secret.gguf", b"GGUF")
        secret.chmod(0)
        for expected, name in [
            ("[io]", "no/such/file"),
            ("[io]", "no_such.gguf"),
            ("examples/fetch_model.py no-such-model", "no-such-model"),
            ("[io]", self.folder),
        ] + ([("[io]", secret)] if os.geteuid() != 0 else []):
            for command in (("inspect",), ("tokenize", "-p", "a"), ("generate", "-p", "a"),
                            ("logits", "-p", "a"), ("bench",)):
                with self.subTest(command=command[0], name=str(name)):
                    self.fails(1, expected, *command, "-m", name)
        model = self.alphabet()
        self.fails(1, "[io]", "generate", "-m", model, "-f", self.folder / "no text")
        self.fails(1, "[io]", "generate", "-m", model, "-f", self.folder)
        self.fails(1, "'/dev/zero': more than 256 MiB", "tokenize", "-m", model, "-f", "/dev/zero")
        if os.path.exists("/proc/self/mem"):  # opens, and then has nothing to read where it begins
            self.fails(1, "cannot be read", "tokenize", "-m", model, "-f", "/proc/self/mem")
        self.fails(1, "[io]", "generate", "-m", model, "-p", "a", "-md", "no/such/file")

    def test_contents(self):
        whole = tiny_gguf.alphabet_model()
        for expected, name, data in [
            ("[io]", "empty", b""),
            ("[corrupt-file]", "random", bytes(range(256)) * 40),
            ("[corrupt-file]", "header", whole[:20]),
            ("[corrupt-file]", "metadata", whole[:2000]),
            ("[corrupt-file]", "weights", whole[:-5000]),
            ("[corrupt-file]", "count", whole[:8] + b"\xff" * 8 + whole[16:]),
            ("[unsupported-model]", "version", whole[:4] + b"\x09" + whole[5:]),
            ("[unsupported-model]", "family", tiny_gguf.alphabet_model(family="mamba")),
            ("[unsupported-model]", "tokenizer", tiny_gguf.alphabet_model(
                metadata_overrides={"tokenizer.ggml.model": (tiny_gguf.STRING, "rwkv")})),
            ("[shape-mismatch]", "missing", tiny_gguf.alphabet_model(
                tensor_overrides={"blk.0.attn_k.weight": None})),
            ("[shape-mismatch]", "shape", tiny_gguf.alphabet_model(
                tensor_overrides={"blk.0.attn_k.weight": tiny_gguf.zeros(32, 320)})),
        ]:
            file = self.write(name, data)
            for command in ("generate", "logits"):
                with self.subTest(name=name, command=command):
                    self.fails(1, expected, command, "-m", file, "-p", "a")

    def test_which_of_two_files(self):
        mamba = self.write("mamba.gguf", tiny_gguf.alphabet_model(family="mamba"))
        lacking = self.write("lacking.gguf", tiny_gguf.alphabet_model(tensor_overrides={"blk.0.attn_k.weight": None}))
        # The first look at a file does not read its tokenizer.
        rwkv = self.write("rwkv.gguf", tiny_gguf.alphabet_model(
            metadata_overrides={"tokenizer.ggml.model": (tiny_gguf.STRING, "rwkv")}))
        for file in (mamba, lacking, rwkv):
            for expected, model, draft in ((f"found '{file}': ", file, self.alphabet()),
                                           (f"found draft model '{file}': ", self.alphabet(), file)):
                self.fails(1, expected, "generate", "-m", model, "-md", draft, "-p", "a")

    def test_a_folder_is_named_once(self):
        cache = self.folder / "cache"
        folder = cache / "foredraft" / "models"
        for chosen in (f"{folder}", f"{folder}/"):
            environment = {"XDG_CACHE_HOME": str(cache), "FOREDRAFT_MODELS": chosen}
            done = self.fails(1, str(folder), "inspect", "no-such-model", environment=environment)
            self.assertEqual(done.stderr.count(str(folder)), 1)

    def test_no_chat_format(self):
        file = self.alphabet("plain.gguf", chat=None)
        self.assertIn("--raw", self.fails(1, "[unsupported-model]", "generate", "-m", file, "-p", "a").stderr)
        self.succeeds("generate", "-m", file, "-p", "a", "--raw")
        self.assertIn("--chat-format", self.fails(1, "[unsupported-model]", "generate", "-m", file, "-p", "a").stderr)
        for name in ("chatml", "llama3", "gemma", "mistral-v7", "phi3", "granite", "tulu"):
            self.succeeds("generate", "-m", file, "-p", "a", "--chat-format", name, "-n", 2)
        self.fails(2, "--chat-format", "generate", "-m", file, "-p", "a", "--chat-format", "alpaca")
        self.fails(2, "--chat-format with --raw", "generate", "-m", file, "-p", "a", "--raw", "--chat-format", "gemma")
        named = self.json_of("generate", "-m", self.alphabet(), "-p", "a", "-n", 2, "--chat-format", "chatml")
        recognised = self.json_of("generate", "-m", self.alphabet(), "-p", "a", "-n", 2)
        self.assertEqual(named["stats"]["prompt_tokens"], recognised["stats"]["prompt_tokens"])

    def test_draft_models_that_cannot_be_requantized(self):
        def head(value):
            return tiny_gguf.floats([tiny_gguf.D_MODEL, tiny_gguf.N_VOCAB],
                                    [value] * (tiny_gguf.D_MODEL * tiny_gguf.N_VOCAB))
        base = ("generate", "-m", self.alphabet(), "-p", "a", "--quantize-draft", "q4_0", "-md")
        for name, value in (("inf.gguf", float("inf")), ("great.gguf", 1e30)):
            file = self.alphabet(name, tensor_overrides={"output.weight": head(value)})
            self.assertIn("'output.weight'", self.fails(1, "[unsupported-model]", *base, file).stderr)
        small = (tiny_gguf.zeros(tiny_gguf.N_VOCAB, tiny_gguf.D_MODEL))
        file = self.alphabet("four.gguf", tensor_overrides={"output.weight": small})
        self.assertIn("which nothing needs", self.fails(2, "[invalid-option]", *base, file).stderr)
        # Without being asked only where no option says what becomes of the draft model.
        great = ("generate", "-m", self.alphabet(), "-p", "a", "-md", self.folder / "great.gguf")
        self.fails(1, "[unsupported-model]", *great)
        for option in (("--quantize-draft", "none"), ("--draft-vocab", 100), ("--keep-packed",)):
            self.succeeds(*great, *option)

    def test_nan_weights(self):
        nan = tiny_gguf.floats([tiny_gguf.D_MODEL], [float("nan")] * tiny_gguf.D_MODEL)
        file = self.alphabet("nan.gguf", tensor_overrides={"output_norm.weight": nan})
        self.fails(1, "[invalid-logits]", "generate", "-m", file, "-p", "a", "--json")
        self.fails(1, "[invalid-logits]", "logits", "-m", file, "-p", "a", "--json")
        for sizes in (("-p", 2, "-n", 0), ("-p", 100, "-n", 0), ("-p", 0, "-n", 2)):
            self.fails(1, "[invalid-logits]", "bench", "-m", file, "-r", 1, *sizes)

    def test_what_would_be_left_out(self):
        """A model with a step that this version does not have is refused, and inspect says so."""
        for name, options in {
            "'blk.0.attn_output.bias'": {"tensor_overrides": {
                "blk.0.attn_output.bias": tiny_gguf.floats([tiny_gguf.D_MODEL], [0.5] * tiny_gguf.D_MODEL)}},
            "'blk.1.attn_q.weight'": {"tensor_overrides": {
                "blk.1.attn_q.weight": tiny_gguf.zeros(32, tiny_gguf.D_MODEL)}},
            "attention.sliding_window": {"metadata_overrides": {
                "llama.attention.sliding_window": (tiny_gguf.U32, 64)}},
            "logit_scale": {"metadata_overrides": {"llama.logit_scale": (tiny_gguf.F32, 0.5)}},
            "rope.scaling.factor": {"metadata_overrides": {"llama.rope.scaling.factor": (tiny_gguf.F32, 4)}},
            "parts of a model": {"metadata_overrides": {"split.count": (tiny_gguf.U32, 3)}},
            "'adapter'": {"metadata_overrides": {"general.type": (tiny_gguf.STRING, "adapter")}},
        }.items():
            with self.subTest(name=name):
                expected = name.replace("'", '"')
                file = self.write("more.gguf", tiny_gguf.alphabet_model(**options))
                for command in ("generate", "logits"):
                    done = self.fails(1, "[unsupported-model]", command, "-m", file, "-p", "a")
                    self.assertIn(expected, done.stderr)
                found = self.json_of("inspect", file)
                self.assertFalse(found["runs"])
                self.assertIn(expected, found["why_not"])

    def test_ids_and_lengths(self):
        model = {"bos": ("tokenizer.ggml.bos_token_id", (tiny_gguf.U32, 258), "[token-out-of-range]"),
                 "eos": ("tokenizer.ggml.eos_token_id", (tiny_gguf.U32, 999), "[token-out-of-range]"),
                 "types": ("tokenizer.ggml.token_type", (tiny_gguf.ARRAY, (tiny_gguf.I32, [1] * 9)), "[corrupt-file]"),
                 "pre": ("tokenizer.ggml.pre", (tiny_gguf.STRING, "klingon"), "[unsupported-model]"),
                 "rope": ("llama.rope.scaling.type", (tiny_gguf.STRING, "yarn"), "[unsupported-model]"),
                 "experts": ("llama.expert_count", (tiny_gguf.U32, 8), "[unsupported-model]"),
                 "alignment": ("general.alignment", (tiny_gguf.U32, 33), "[corrupt-file]")}
        for name, (key, value, expected) in model.items():
            with self.subTest(name=name):
                file = self.write(f"{name}.gguf", tiny_gguf.alphabet_model(metadata_overrides={key: value}))
                self.fails(1, expected, "generate", "-m", file, "-p", "a")

    def test_memory(self):
        # Over a terabyte of keys and values; only their size is looked at.
        file = self.alphabet("wide.gguf", heads=64, head_size=64, n_ctx=1 << 26)
        done = self.fails(1, "[out-of-memory]", "generate", "-m", file, "-p", "a", "-c", 1 << 26)
        self.assertIn("context", done.stderr)
        # The context that -n asks for is looked at, too, though it is known only when the prompt is.
        done = self.fails(1, "[out-of-memory]", "generate", "-m", file, "-p", "a", "-n", 1 << 25)
        self.assertIn("(-n)", done.stderr)

    def test_prompts(self):
        model = self.alphabet()
        self.fails(1, "[empty-prompt]", "generate", "-m", model, "-p", "")
        self.fails(1, "[empty-prompt]", "generate", "-m", model, "-f", "-", stdin="")
        self.fails(1, "[empty-prompt]", "logits", "-m", model, "-p", "")
        # What cannot be read is no empty text.
        folder = os.open(self.folder, os.O_RDONLY)
        for command in ("generate", "logits", "tokenize"):
            done = subprocess.run([support.PROGRAM, command, "-m", model, "-f", "-"], stdin=folder,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("[io]", done.stderr)
        os.close(folder)
        self.fails(1, "[context-overflow]", "generate", "-m", model, "--raw", "-p", "a" * 600)
        self.fails(1, "[context-overflow]", "generate", "-m", model, "--raw", "-p", "a" * 32, "-c", 32)
        self.fails(1, "[context-overflow]", "logits", "-m", model, "-p", "a" * 600)
        self.fails(1, "[context-overflow]", "bench", "-m", model, "-p", 600)


class KeepPacked(CliTest):
    """--keep-packed changes how long a start takes, and nothing else."""

    def packed(self, model):
        return pathlib.Path(f"{model}.packed")

    def test_every_command(self):
        model = self.alphabet()
        for command in (("generate", "--raw", "-p", "u"), ("logits", "-p", "abc"),
                        ("bench", "-p", 4, "-n", 2, "-r", 1)):
            with self.subTest(command=command[0]):
                plain = self.succeeds(*command, "-m", model)
                self.assertFalse(self.packed(model).exists())
                first = self.succeeds(*command, "-m", model, "--keep-packed")
                self.assertIn(f"foredraft: packed weights written to '{model}.packed'\n", first.stderr)
                content = self.packed(model).read_bytes()
                second = self.succeeds(*command, "-m", model, "--keep-packed")
                self.assertNotIn("packed", second.stderr)
                self.assertEqual(self.packed(model).read_bytes(), content)
                if command[0] != "bench":
                    self.assertEqual([first.stdout, second.stdout], [plain.stdout] * 2)
                self.packed(model).unlink()

    def test_damage(self):
        model = self.alphabet("damage.gguf")
        base = ("generate", "--raw", "-p", "u", "-m", model, "--keep-packed")
        plain = self.succeeds(*base).stdout
        sound = self.packed(model).read_bytes()
        for expected, data in [("it is damaged", sound[:-9] + b"\x01" + sound[-8:]),
                               ("it is cut off", sound[:-1]),
                               ("it is cut off", sound[:50]),
                               ("it cannot be read", b""),
                               ("it is another format", b"x" * len(sound)),
                               ("it is of another version", sound[:12] + b"\x7f" + sound[13:])]:
            with self.subTest(expected=expected):
                self.assertNotEqual(data, sound)
                self.packed(model).write_bytes(data)
                done = self.succeeds(*base)
                self.assertEqual(done.stdout, plain)
                self.assertEqual(done.stderr.count("\nforedraft: ") + done.stderr.startswith("foredraft: "), 1)
                self.assertIn(f"because of '{model}.packed': {expected}", done.stderr)
                self.assertEqual(self.packed(model).read_bytes(), sound)

    def test_another_model_of_that_name(self):
        model = self.alphabet("swap.gguf")
        base = ("generate", "--raw", "-p", "y", "-m", model, "--keep-packed", "-n", 2)
        self.assertEqual(self.succeeds(*base).stdout, "z\n")
        other = tiny_gguf.alphabet_model(after_z=ord("a"))
        self.assertEqual(len(other), model.stat().st_size)
        model.write_bytes(other)
        done = self.succeeds(*base)
        self.assertEqual(done.stdout, "za\n")
        self.assertIn("the model has changed", done.stderr)

    def test_draft_models(self):
        target = self.alphabet("target.gguf")
        draft = self.alphabet("draft.gguf")
        base = ("generate", "--raw", "-p", "u", "-m", target, "-md", draft, "--keep-packed")
        for options, kept in [((), True), (("--quantize-draft", "q4_0"), False), (("--draft-vocab", 200), False)]:
            for model in (target, draft):
                self.packed(model).unlink(missing_ok=True)
            for _ in range(2):
                self.assertEqual(self.succeeds(*base, *options).stdout, "vwxyz\n")
            self.assertTrue(self.packed(target).exists())
            self.assertEqual(self.packed(draft).exists(), kept)

    def test_folders(self):
        # Beside the model where that can be, else in the user's cache; else it is said.
        folder = self.folder / "closed"
        folder.mkdir()
        model = folder / "m.gguf"
        model.write_bytes(tiny_gguf.alphabet_model())
        self.packed(model).mkdir()  # a folder of that name: not even root can replace it by a file
        (self.packed(model) / "content").touch()
        cache = self.folder / "cache of packed files"
        base = ("generate", "--raw", "-p", "u", "-m", model, "--keep-packed")
        environment = {"XDG_CACHE_HOME": str(cache)}
        done = self.succeeds(*base, environment=environment)
        [file] = (cache / "foredraft" / "packed").iterdir()
        self.assertIn(f"written to '{file}'", done.stderr)
        self.assertRegex(file.name, r"^m\.gguf-\d+\.packed$")
        done = self.succeeds(*base, environment=environment)
        self.assertNotIn("packed", done.stderr)
        environment = {"XDG_CACHE_HOME": str(model)}  # no folder, and never one
        done = self.succeeds(*base, environment=environment)
        self.assertEqual(done.stdout, "vwxyz\n")
        self.assertIn("packed weights cannot be written to", done.stderr)

    def test_two_starts_at_once(self):
        model = self.alphabet("twice.gguf")
        for _ in range(5):
            self.packed(model).unlink(missing_ok=True)
            running = [subprocess.Popen([support.PROGRAM, "generate", "--raw", "-p", "u", "-m", str(model),
                                         "--keep-packed"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                       for _ in range(4)]
            for process in running:
                self.assertEqual(process.communicate(timeout=60)[0], b"vwxyz\n")
                self.assertEqual(process.returncode, 0)
        self.assertEqual([file.name for file in self.folder.glob("twice*.tmp")], [])
        self.assertNotIn("packed", self.succeeds("generate", "--raw", "-p", "u", "-m", model, "--keep-packed").stderr)


class Generate(CliTest):
    def test_text_and_end(self):
        done = self.succeeds("generate", "-m", self.alphabet(), "--raw", "-p", "u")
        self.assertEqual(done.stdout, "vwxyz\n")
        self.assertNotIn("\x1b", done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"decode: 6 tokens, [\d.]+ t/s, \d+ rounds, end: stop")

    def test_object(self):
        found = self.json_of("generate", "-m", self.alphabet(), "--raw", "-p", "x")
        self.assertEqual(found["tokens"], [ord("y"), ord("z"), tiny_gguf.IM_END])
        self.assertEqual(found["text"], "yz")
        self.assertEqual(found["from_draft"], [False] * 3)
        self.assertEqual(found["finish_reason"], "stop")
        stats = found["stats"]
        self.assertEqual(stats["prompt_tokens"], 1)
        for key in ("tokens_per_second", "prompt_tokens_per_second", "rounds", "drafted", "accepted"):
            self.assertIsInstance(stats[key], (int, float))
        self.assertLessEqual({"prefill", "draft", "verify", "accept", "commit", "total"}, set(stats["seconds"]))

    def test_limits(self):
        model = self.endless_alphabet()
        for arguments, count, reason in [(("-n", 7), 7, "length"), (("-n", 0), 0, "length"),
                                         (("-n", -1, "-c", 40), 39, "context")]:
            found = self.json_of("generate", "-m", model, "--raw", "-p", "a", *arguments)
            self.assertEqual((len(found["tokens"]), found["finish_reason"]), (count, reason))
        found = self.json_of("generate", "-m", self.alphabet(), "--raw", "-p", "y", "-n", 9, "--ignore-eos")
        self.assertEqual(len(found["tokens"]), 9)

    def test_numbers_are_decimal(self):
        found = self.json_of("generate", "-m", self.endless_alphabet(), "--raw", "-p", "a", "-n", "010")
        self.assertEqual(len(found["tokens"]), 10)

    def test_chat_format(self):
        found = self.json_of("generate", "-m", self.alphabet(), "-p", "hello")
        # <|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n, one token a letter
        self.assertEqual(found["stats"]["prompt_tokens"], 1 + 5 + 5 + 1 + 1 + 1 + 10)
        self.assertEqual(found["text"], "abcdefghijklmnopqrstuvwxyz")

    def test_prompt_sources(self):
        file = self.write("prompt.txt", b"m\nn")
        model = self.alphabet()
        texts = [self.succeeds("generate", "-m", model, "--raw", *source, stdin="m\nn").stdout
                 for source in (("-p", "m\nn"), ("-f", file), ("-f", "-"))]
        self.assertEqual(texts, ["opqrstuvwxyz\n"] * 3)

    def test_names(self):
        self.alphabet()
        environment = {"FOREDRAFT_MODELS": str(self.folder)}
        found = self.json_of("generate", "-m", "alphabet", "--raw", "-p", "y", environment=environment)
        self.assertEqual(found["text"], "z")
        cache = self.folder / "cache"
        (cache / "foredraft" / "models").mkdir(parents=True)
        os.link(self.alphabet(), cache / "foredraft" / "models" / "mine.gguf")
        environment = {"FOREDRAFT_MODELS": "", "XDG_CACHE_HOME": str(cache)}
        self.succeeds("tokenize", "-m", "mine", "-p", "y", environment=environment)
        # A folder of that name is not the model.
        (self.folder / "mine").mkdir()
        self.succeeds("tokenize", "-m", "mine", "-p", "y", environment=environment, cwd=self.folder)

    def test_every_way_to_speculate_gives_the_plain_text(self):
        model = self.endless_alphabet()
        base = ("generate", "-m", model, "--raw", "-p", "the alphabet: abcdefgh", "-n", 80)
        plain = self.json_of(*base, "--spec-type", "none")
        self.assertEqual(plain["stats"]["drafted"], 0)
        for arguments in ((), ("--spec-type", "lookup"), ("--spec-type", "ngram-simple"),
                          ("--spec-type", "suffix"), ("--spec-type", "suffix-automaton"),
                          ("--spec-type", "recycling"), ("--spec-draft-n-max", 1), ("--spec-draft-n-max", 63),
                          ("--spec-type", "lookahead"), ("--spec-type", "lookahead", "--spec-draft-n-max", 8),
                          ("--spec-type", "ngram-cache"), ("--spec-type", "ngram-mod"),
                          ("--spec-type", "ngram-map-k", "--spec-draft-n-max", 5),
                          ("--spec-type", "ngram-map-k4v", "--spec-draft-n-max", 5),
                          ("-md", self.twin(model), "--spec-draft-n-max", 5),
                          ("-md", self.twin(model)), ("--model-draft", self.twin(model), "--spec-type", "draft"),
                          ("-md", self.twin(model), "--spec-type", "draft-simple", "--spec-acceptance", "match"),
                          ("-md", self.twin(self.alphabet())), ("-t", 1), ("--isa", "portable")):
            with self.subTest(arguments=arguments):
                found = self.json_of(*base, *arguments)
                self.assertEqual(found["tokens"], plain["tokens"])
                self.assertEqual(found["text"], plain["text"])
                stats = found["stats"]
                # Without a depth it may well be that nothing pays: these models take microseconds.
                if "--spec-draft-n-max" in arguments:
                    self.assertGreater(stats["accepted"], 0)
                self.assertEqual(sum(found["from_draft"]), stats["accepted"])
                self.assertEqual(sum(stats["accepted_per_position"]), stats["accepted"])

    def test_formats_of_caches(self):
        model = self.alphabet("wide.gguf", after_z=ord("a"), head_size=64)
        base = ("generate", "-m", model, "--raw", "-p", "the alphabet: abcdefgh", "-n", 80)
        plain = self.json_of(*base, "--spec-type", "none")
        self.assertEqual(plain["settings"]["cache_type_k"], "f16")
        self.assertEqual(plain["settings"]["cache_type_v"], "f16")
        self.assertNotIn("cache_type_k_draft", plain["settings"])
        for keys, values in itertools.product(("f16", "f32", "bf16", "q8_0"), repeat=2):
            with self.subTest(keys=keys, values=values):
                found = self.json_of(*base, "-ctk", keys, f"-ctv={values}", "-md", self.twin(model), "-ctkd", values,
                                     f"-ctvd={keys}", "--spec-draft-n-max", 4)
                settings = found["settings"]
                self.assertEqual((settings["cache_type_k"], settings["cache_type_v"]), (keys, values))
                self.assertEqual((settings["cache_type_k_draft"], settings["cache_type_v_draft"]), (values, keys))
                self.assertEqual(found["tokens"], plain["tokens"])
                self.assertGreater(found["stats"]["accepted"], 0)
        for arguments in (("--spec-type", "none"), (), ("-md", self.twin(model)), (f"-md={self.twin(model)}",)):
            with self.subTest(arguments=arguments):
                found = self.json_of(*base, "-ctk", "q8_0", "-ctv=q8_0", *arguments)
                self.assertEqual(found["settings"]["cache_type_k"], "q8_0")
                self.assertEqual(found["tokens"], plain["tokens"])
        narrow = self.alphabet("narrow.gguf", after_z=ord("a"))
        self.fails(2, "--cache-type-v-draft q8_0 with heads of", *base, "-md", narrow, "-ctvd", "q8_0")

    def test_draft_model_with_a_shorter_context(self):
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "abc", "-n", 600)
        plain = self.json_of(*base, "--spec-type", "none")
        found = self.json_of(*base, "-md", self.twin(self.alphabet()), "--spec-type", "draft", "--spec-draft-n-max", 5)
        self.assertEqual(found["tokens"], plain["tokens"])
        self.assertGreater(found["stats"]["accepted"], 300)

    def test_bytes_that_are_not_text(self):
        file = self.write("bytes", bytes(range(256)) + b"y")
        for command in (("tokenize",), ("logits",), ("generate", "--raw"), ("generate",)):
            self.json_of(*command, "-m", self.alphabet(), "-f", file)
        follows_c3 = self.alphabet("broken.gguf", after_z=0xC3)
        self.assertIn("\ufffd", self.json_of("generate", "-m", follows_c3, "--raw", "-p", "y", "-n", 2)["text"])

    def test_seeds(self):
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "abcabc", "-n", 60, "--temp", 3)
        texts = {}
        for seed in (1, 2):
            for kind in (("--spec-type", "none"), (), ("-md", self.twin(self.endless_alphabet()))):
                texts.setdefault(seed, set()).add(self.json_of(*base, "--seed", seed, *kind)["text"])
            self.assertEqual(len(texts[seed]), 1, "match acceptance: one seed, one text")
        self.assertNotEqual(texts[1], texts[2])
        # The other rules keep the law, but a seed's text depends on the drafts: a fixed depth repeats it.
        for rule in (("rejection", "--top-k", 40), ("block", "--top-k", 40), ("block",)):
            repeats = [self.json_of(*base, "-s", 5, "--spec-draft-n-max", 8, "--spec-acceptance", *rule)["tokens"]
                       for _ in range(2)]
            self.assertEqual(*repeats)

    def test_draft_temperature(self):
        model = self.endless_alphabet()
        base = ("generate", "-m", model, "-md", self.twin(model), "--raw", "-p", "abc", "-n", 60, "--temp", 3,
                "--spec-type", "draft", "--spec-draft-n-max", 8)
        usual = self.json_of(*base)
        self.assertNotIn("draft_temperature", usual["settings"])
        for rule in ("match", "rejection", "block"):
            found = self.json_of(*base, "--draft-temp", 0, "--spec-acceptance", rule)
            self.assertEqual(found["settings"]["draft_temperature"], 0)
            self.assertLess(found["stats"]["acceptance_rate"], usual["stats"]["acceptance_rate"])
            if rule == "match":
                self.assertEqual(found["text"], usual["text"])

    def test_cheaper_draft_model(self):
        model = self.endless_alphabet()
        base = ("generate", "-m", model, "--raw", "-p", "abc", "-n", 60)
        plain = self.json_of(*base, "--spec-type", "none")
        usual = self.json_of(*base, "-md", self.twin(model))
        for key in ("quantize_draft", "draft_vocab", "draft_vocab_counts"):
            self.assertNotIn(key, usual["settings"])
        frequent = range(ord("a"), ord("z") + 1)
        lines = self.write("counts.txt", "\n".join(f" {token}\t{token} " for token in frequent).encode() + b"\n\n")
        pairs = self.write("pairs.json", json.dumps([[token, 7] for token in frequent]).encode())
        members = self.write("counts.json", json.dumps({str(token): 2**40 for token in frequent}).encode())
        # Whether the draft knows the alphabet: all of it, none of it, all but the least frequent a.
        for arguments, known in [
            (("--quantize-draft", "q4_0"), 26), (("--quantize-draft", "q8_0"), 26),
            (("--draft-vocab", 257), 26), (("--draft-vocab", 90), 0),
            (("--draft-vocab", 28, "--draft-vocab-counts", lines), 26),
            (("--draft-vocab", 28, "--draft-vocab-counts", pairs), 26),
            (("--draft-vocab", 28, "--draft-vocab-counts", members), 26),
            (("--draft-vocab", 27, "--draft-vocab-counts", lines, "--quantize-draft", "q4_0"), 25),
        ]:
            with self.subTest(arguments=arguments):
                found = self.json_of(*base, "-md", self.twin(model), "--spec-type", "draft", "--spec-draft-n-max", 8, *arguments)
                self.assertEqual((found["tokens"], found["text"]), (plain["tokens"], plain["text"]))
                rate = found["stats"]["acceptance_rate"]
                self.assertTrue({0: rate == 0, 25: 0.5 < rate < 1, 26: rate == 1}[known], rate)
                settings = found["settings"]
                if "--quantize-draft" in arguments:
                    self.assertEqual(settings["quantize_draft"], arguments[arguments.index("--quantize-draft") + 1])
                if "--draft-vocab" in arguments:
                    self.assertEqual(settings["draft_vocab"], arguments[arguments.index("--draft-vocab") + 1])
                    self.assertEqual("draft_vocab_counts" in settings, "--draft-vocab-counts" in arguments)
        seeded = [self.json_of(*base, "--temp", 2, "--seed", 3, *kind)["tokens"]
                  for kind in (("--spec-type", "none"), ("-md", self.twin(model), "--draft-vocab", 110),
                               ("-md", self.twin(model), "--draft-vocab", 110, "--quantize-draft", "q4_0"))]
        self.assertEqual(seeded[0], seeded[1])
        self.assertEqual(seeded[0], seeded[2])

    def test_counts_that_are_none(self):
        model = self.alphabet()
        base = ("generate", "-m", model, "-md", self.twin(model), "-p", "a", "--draft-vocab", 100, "--draft-vocab-counts")
        for expected, data in [("nothing", b" \n"), ("line 2", b"1 5\n2\n"), ("line 1", b"a 5\n"),
                               ("line 1", b"1 5 6\n"), ("line 1", b"1 -5\n"), ("line 1", b"-1 5\n"),
                               ("token 1 again", b"1 5\n1 5\n"), ('"1" again', b'{"1": 5, "2": 5, "1": 5}'),
                               ("token 1 again", b'{"1": 5, "01": 5}'), ("token 1 again", b"[[1, 5], [1, 5]]"), ("line 1", b"99999999999 1\n"),
                               ("damaged", b"{"), ("no pairs", b"[1, 2]"), ("JSON 1.5", b"[[1, 1.5]]"),
                               ("JSON 18446744073709551615", b"[[1, 18446744073709551615]]"),
                               ('"x"', b'{"x": 1}'), ("damaged", b"[" * 100000)]:
            with self.subTest(data=data[:20]):
                self.fails(1, expected, *base, self.write("counts", data))
        self.fails(1, "[token-out-of-range]", *base, self.write("counts", b"258 1\n"))
        self.fails(1, "[io]", *base, "no/such/file")
        self.fails(1, "[io]", *base, self.folder)

    def test_samples(self):
        model = self.endless_alphabet()
        # One drafter that keeps nothing of the sample before, and a fixed depth: then the rounds repeat too.
        lookup = ("--spec-type", "lookup", "--spec-draft-n-max", 8)
        draft = ("--spec-type", "draft", "--spec-draft-n-max", 8, "-md", self.twin(model))
        for arguments in (lookup, draft, (*lookup, "--spec-acceptance", "rejection"),
                          (*draft, "--spec-acceptance", "block", "--draft-temp", 2)):
            base = ("generate", "-m", model, "--raw", "-p", "abcabc", "-n", 30, "--temp", 3, *arguments)
            with self.subTest(arguments=arguments):
                many = self.json_lines_of(*base, "--samples", 4, "--seed", 7, "--logprobs", 1)
                self.assertEqual([found["seed"] for found in many], [7, 8, 9, 10])
                for found in many:
                    alone = self.json_of(*base, "--seed", found["seed"], "--logprobs", 1)
                    for key in ("tokens", "text", "from_draft", "finish_reason", "logprobs", "settings", "seed"):
                        self.assertEqual(found[key], alone[key])
                    self.assertEqual(found["stats"]["rounds"], alone["stats"]["rounds"])
                    self.assertEqual(found["stats"]["prompt_tokens"], 6)
                # The prompt is read once.
                self.assertEqual([found["stats"]["reused_tokens"] for found in many], [0, 6, 6, 6])
        # Whatever is chosen to draft with, a seed has its text.
        for arguments in ((), ("-md", self.twin(model))):
            base = ("generate", "-m", model, "--raw", "-p", "abcabc", "-n", 30, "--temp", 3, *arguments)
            with self.subTest(arguments=arguments):
                many = self.json_lines_of(*base, "--samples", 4, "--seed", 7, "--logprobs", 1)
                for found in many:
                    alone = self.json_of(*base, "--seed", found["seed"], "--logprobs", 1)
                    for key in ("tokens", "text", "finish_reason", "logprobs", "settings", "seed"):
                        self.assertEqual(found[key], alone[key])
                self.assertEqual([found["stats"]["reused_tokens"] for found in many], [0, 6, 6, 6])
        done = self.succeeds("generate", "-m", model, "--raw", "-p", "abc", "-n", 5, "--temp", 0.01, "--samples", 2)
        self.assertEqual(done.stdout, "--- sample 1 of 2, seed 0 ---\ndefgh\n\n--- sample 2 of 2, seed 1 ---\ndefgh\n")
        self.assertRegex(done.stderr, r"prompt: 3 tokens, .*\ndecode: 10 tokens, .* end: 2 length")

    def test_logprobs(self):
        model = self.alphabet()
        base = ("generate", "-m", model, "--raw", "-p", "abcdefghijklm abc", "-n", 30)
        plain = self.json_of(*base, "--spec-type", "none")
        self.assertNotIn("logprobs", plain)
        rows = self.json_of("logits", "-m", model, "-p", "abcdefghijklm abc" + plain["text"], "--top", 3)["top"]
        rows = rows[-len(plain["tokens"]):]
        for arguments in (("--spec-type", "none"), (), ("-md", self.twin(model))):
            found = self.json_of(*base, *arguments, "--logprobs", 3)
            self.assertEqual(found["tokens"], plain["tokens"])
            self.assertEqual([entry["id"] for entry in found["logprobs"]], found["tokens"])
            self.assertEqual([entry["top"] for entry in found["logprobs"]], rows)
            self.assertEqual([entry["logprob"] for entry in found["logprobs"]], [row[0][1] for row in rows])
        # Of the raw row, whatever transforms and penalties make of it.
        sampled = self.json_of(*base, "--temp", 5, "--top-k", 1, "--repeat-penalty", 1.001, "--logprobs", 0)
        self.assertEqual(sampled["tokens"], plain["tokens"])
        self.assertEqual([(entry["logprob"], entry["top"]) for entry in sampled["logprobs"]],
                         [(row[0][1], []) for row in rows])
        table = self.succeeds("generate", "-m", model, "--raw", "-p", "w", "--logprobs", 2).stdout.splitlines()
        self.assertEqual(table[:2], ["xyz", ""])
        self.assertEqual(len(table), 2 + 4)
        self.assertRegex(table[2], r"^0  'x' -\d\.\d{4}  of  'x' -\d\.\d{4}  '.+' -\d+\.\d{4}$")

    def test_penalties(self):
        # Warm, because a repeat penalty alone leaves the one logit above 0 above the others.
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "abcxyza", "-n", 40, "--temp", 1)
        plain = self.json_of(*base, "--spec-type", "none")["text"]
        self.assertEqual(plain[:5], "bcdef")
        for penalty in ("--repeat-penalty", "--presence-penalty", "--frequency-penalty"):
            texts = {self.json_of(*base, penalty, 50, "--repeat-last-n", -1, *kind)["text"]
                     for kind in (("--spec-type", "none"), (), ("-md", self.twin(self.endless_alphabet())))}
            self.assertEqual(len(texts), 1, "drafts count as they would without drafting")
            self.assertNotEqual(texts.pop(), plain)

    def test_samplers(self):
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "abc", "-n", 30)
        for options in (("--dry-multiplier", 60), ("--bad-word", "h"), ("-l", f"{ord('k')}-inf"),
                        ("--temp", 1, "--xtc-probability", 0.5, "--xtc-threshold", 0.001),
                        ("--temp", 1, "--typical", 0.3), ("--temp", 1, "--mirostat", 2),
                        ("--temp", 1, "--dynatemp-range", 0.9), ("--temp", 2, "--top-nsigma", 3),
                        ("--temp", 3, "--top-k", 9, "--samplers", "top_k;temperature")):
            plain = self.json_of(*base, *options, "--spec-type", "none")["tokens"]
            self.assertEqual(self.json_of(*base, *options, "--spec-draft-n-max", 5)["tokens"], plain, options)
        self.assertNotIn("h", self.json_of(*base, "--bad-word", "h")["text"])
        self.assertNotIn("k", self.json_of(*base, "-l", f"{ord('k')}-inf")["text"])

    def test_minimum_length_and_reasoning_budget(self):
        ends = ("generate", "-m", self.alphabet(), "--raw", "-p", "v", "-n", 12)
        self.assertEqual(self.json_of(*ends)["text"], "wxyz")
        longer = self.json_of(*ends, "--min-tokens", 8)
        self.assertEqual(longer["text"][:4], "wxyz")
        self.assertGreaterEqual(len(longer["tokens"]), 8)
        thinks = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "<think>", "-n", 16)
        budget = ("--reasoning-format", "deepseek", "--reasoning-budget", 3)
        self.assertEqual(self.json_of(*thinks, *budget)["text"][3:11], "</think>")
        said = self.json_of(*thinks, *budget, "--reasoning-budget-message", "ok.")["text"]
        self.assertEqual(said[3:14], "ok.</think>")

    def test_samplers_that_are_none(self):
        base = ("generate", "-m", "none.gguf", "-p", "x")
        for options, found in ((("--samplers", "top_k;foo"), "--samplers top_k;foo"),
                               (("-l", "12"), "--logit-bias 12"), (("-l", "x+1"), "--logit-bias x[+]1"),
                               (("-l", "5+2x"), "--logit-bias 5[+]2x"), (("--mirostat", 1), "mirostat 1"),
                               (("--dry-sequence-breaker", "x"), "--dry-sequence-breaker"),
                               (("--reasoning-budget-message", "x"), "without --reasoning-budget"),
                               (("--typical", 0.5), "temperature 0"),
                               (("--min-tokens", 20, "-n", 10), "min_tokens 20")):
            done = support.run(*base, *options)
            self.assertEqual(done.returncode, 2, options)
            self.assertRegex(done.stderr, found)

    def test_each_drafter_is_told_of(self):
        done = self.succeeds("generate", "-m", self.alphabet(), "--raw", "-p", "a")
        self.assertRegex(done.stderr, "  lookup: asked [0-9]+ times")
        done = self.succeeds("generate", "-m", self.alphabet(), "-md", self.twin(self.alphabet()), "--raw", "-p", "a")
        self.assertRegex(done.stderr, "  lookup: asked [0-9]+ times")
        self.assertRegex(done.stderr, "  draft: asked [0-9]+ times")
        done = self.succeeds("generate", "-m", self.alphabet(), "--raw", "-p", "a", "--spec-type", "none")
        self.assertNotIn("asked", done.stderr)

    def test_full_disk(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([support.PROGRAM, "generate", "-m", self.alphabet(), "-p", "a", "--json"],
                                  stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("[io]", done.stderr)


class Terminal(CliTest):
    def test_colour(self):
        command = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "abcabc", "-n", 40,
                   "--spec-draft-n-max", 4)  # whatever it costs
        for environment, coloured in (({"TERM": "xterm", "NO_COLOR": ""}, True),
                                      ({"TERM": "xterm", "NO_COLOR": "1"}, False),
                                      ({"TERM": "dumb", "NO_COLOR": ""}, False)):
            status, output = run_on_terminal(*command, environment=environment)
            self.assertEqual(status, 0)
            self.assertEqual(b"\x1b[36m" in output, coloured, environment)

    def test_loading_bar(self):
        # On a terminal it comes and goes; elsewhere it does not come at all.
        command = ("generate", "-m", self.alphabet(), "--raw", "-p", "y")
        status, output = run_on_terminal(*command, environment={}, stream="stderr")
        self.assertEqual(status, 0)
        bar = rb"\r\x1b\[Kloading alphabet \[#* *\] +(\d+) %"
        parts = [int(part) for part in re.findall(bar, output)]
        self.assertEqual(parts, sorted(set(parts)))
        self.assertEqual(parts[-1], 100)
        self.assertNotIn(b"%", re.split(rb"100 %\r\x1b\[K", output)[1])
        self.assertNotIn("loading", self.succeeds(*command).stderr)

    def test_control_characters_of_a_model_stay_out(self):
        model = self.alphabet("escape.gguf", after_z=0x1B)
        command = ("generate", "-m", model, "--raw", "-p", "y", "-n", 3)
        self.assertIn("\x1b", self.succeeds(*command).stdout)
        status, output = run_on_terminal(*command, environment={"NO_COLOR": "1"})
        self.assertEqual(status, 0)
        self.assertNotIn(b"\x1b", output)

    def test_interrupt(self):
        # With samples, a cancel ends all of them.
        for json_flag in ((), ("--json",), ("--json", "--samples", "3", "--temp", "1", "--top-k", "1")):
            # A parent that ignores SIGINT would hand that down.
            with subprocess.Popen(
                    [support.PROGRAM, "generate", "-m", self.endless_alphabet(), "--raw", "-p", "a", "-n", "-1",
                     "-c", str(1 << 20), *json_flag], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
                if json_flag:
                    # Nothing tells that generation has begun but the threads, which are made before it.
                    wait_for_handler(process.pid)
                else:
                    process.stdout.read(10)
                process.send_signal(signal.SIGINT)
                output, log = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, log)
            if json_flag:
                self.assertEqual(json.loads(output)["finish_reason"], "cancelled")
            else:
                self.assertIn(b"end: cancelled", log)


class OtherCommands(CliTest):
    def test_tokenize(self):
        model = self.alphabet()
        text = "a<|im_end|>é"
        plain = self.json_of("tokenize", "-m", model, "-p", text)["tokens"]
        self.assertEqual(len(plain), len(text.encode()))
        parsed = self.json_of("tokenize", "-m", model, "--parse-special", "-p", text)["tokens"]
        self.assertEqual(parsed[:2], [ord("a"), tiny_gguf.IM_END])
        self.assertEqual(self.json_of("tokenize", "-m", model, "-p", "")["tokens"], [])
        file = self.write("text", text.encode())
        self.assertEqual(self.json_of("tokenize", "-m", model, "-f", file)["tokens"], plain)
        self.assertIn("'a'", self.succeeds("tokenize", "-m", model, "-p", "a").stdout)

    def test_logits(self):
        found = self.json_of("logits", "-m", self.alphabet(), "-p", "ab", "--top", 3)
        self.assertEqual(found["tokens"], [ord("a"), ord("b")])
        self.assertEqual([[row[0][0] for row in found["top"]], [len(row) for row in found["top"]]],
                         [[ord("b"), ord("c")], [3, 3]])
        for row in found["top"]:
            values = [value for _, value in row]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertLess(values[0], 0)
        # More tokens than one pass forwards.
        self.assertEqual(len(self.json_of("logits", "-m", self.alphabet(), "-p", "x" * 100)["top"]), 100)
        self.assertIn("'b'", self.succeeds("logits", "-m", self.alphabet(), "-p", "a").stdout)

    def test_inspect(self):
        model = self.alphabet()
        found = self.json_of("inspect", model)
        self.assertTrue(found["runs"])
        self.assertEqual((found["family"], found["chat_format"]), ("llama", "chatml"))
        self.assertEqual(found["dimensions"]["n_vocab"], tiny_gguf.N_VOCAB)
        self.assertEqual(found["metadata"]["tokenizer.ggml.tokens"]["count"], tiny_gguf.N_VOCAB)
        self.assertEqual(len(found["tensors"]), 12)
        smaller = self.json_of("inspect", "-m", model, "-c", 256)
        self.assertLess(smaller["memory"]["total"], found["memory"]["total"])
        self.assertRegex(self.succeeds("inspect", model).stdout, r"runs +yes")

    def test_inspect_says_why_not(self):
        file = self.write("mamba.gguf", tiny_gguf.alphabet_model(family="mamba"))
        found = self.json_of("inspect", file)
        self.assertFalse(found["runs"])
        self.assertIn("mamba", found["why_not"])
        self.assertEqual((found["dimensions"], found["memory"]), (None, None))
        self.assertRegex(self.succeeds("inspect", file, "-c", 256).stdout,
                         r"runs +no: \[unsupported-model\].*\nmemory +not known: ")

    def test_inspect_hides_control_characters(self):
        name = {"general.name": (tiny_gguf.STRING, "\x1b[2Jhello")}
        file = self.write("rude.gguf", tiny_gguf.alphabet_model(metadata_overrides=name))
        self.assertNotIn("\x1b", self.succeeds("inspect", file).stdout)

    def test_bench(self):
        base = ("bench", "-m", self.alphabet(), "-p", "1,2-4+2,100", "-n", "8", "-r", 2)
        done = self.succeeds(*base, "-o", "json")
        found = json.loads(done.stdout)
        self.assertEqual([r["test"] for r in found["results"]], ["pp1", "pp2", "pp4", "pp100", "tg8"])
        self.assertEqual([r["n"] for r in found["results"]], [1, 2, 4, 100, 8])
        for result in found["results"]:
            self.assertGreater(result["tokens_per_second"], 0)
            self.assertGreaterEqual(result["stddev"], 0)
        self.assertIn("| pp100 |", self.succeeds(*base).stdout)
        head, *rows = csv.reader(self.succeeds(*base, "-o", "csv").stdout.splitlines())
        self.assertEqual([row[head.index("test")] for row in rows], ["pp1", "pp2", "pp4", "pp100", "tg8"])
        self.assertEqual({row[head.index("isa")] for row in rows}, {found["machine"]["isa"]})


class RealModel(CliTest):
    """smollm2-135m, where it has been fetched."""

    def test_speculation_does_not_change_the_text(self):
        model = real_model("smollm2-135m")
        base = ("generate", "-m", model, "-n", 64, "-p",
                "Repeat: one two three four five, one two three four five, one two three.")
        plain = self.json_of(*base, "--spec-type", "none")
        for arguments in ((), ("-md", self.twin(model), "--spec-draft-n-max", 4), ("-t", 1, "--spec-draft-n-max", 3)):
            found = self.json_of(*base, *arguments)
            self.assertEqual((found["tokens"], found["text"]), (plain["tokens"], plain["text"]))
            self.assertGreater(found["stats"]["drafted"], 0)
        asked = [self.json_of(*base, "--logprobs", 2, *kind)
                 for kind in (("--spec-type", "none"), (), ("-md", self.twin(model)))]
        for found in asked:
            self.assertEqual((found["tokens"], found["logprobs"]), (plain["tokens"], asked[0]["logprobs"]))
        seeded = [self.json_of(*base, "--temp", 1, "--seed", 7, *kind)["tokens"]
                  for kind in (("--spec-type", "none"), (), ("-md", self.twin(model)))]
        self.assertEqual(seeded[0], seeded[1])
        self.assertEqual(seeded[0], seeded[2])

    def test_no_address_space(self):
        # Less than the file has; the program itself takes far less.
        limit = 60000 << 10
        for command in ("logits", "tokenize", "generate"):
            self.fails(1, "[out-of-memory]", command, "-m", real_model("smollm2-135m"), "-p", "hi",
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))

    def test_golden_tokens(self):
        model = real_model("smollm2-135m")
        golden = HERE.parent / "golden" / "data" / "smollm2-135m.tokens.jsonl"
        if not golden.exists():
            self.skipTest(f"no {golden}")
        for line in golden.read_text().splitlines():
            case = json.loads(line)
            file = self.write("text", case["text"].encode())
            special = ("--parse-special",) if case["parse_special"] else ()
            self.assertEqual(self.json_of("tokenize", "-m", model, *special, "-f", file)["tokens"],
                             case["tokens"], case["text"])


if __name__ == "__main__":
    support.main()
