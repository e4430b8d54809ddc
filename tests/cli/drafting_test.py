"""What drafters are given and keep, as a user meets it: python3 drafting_test.py PROGRAM"""

import json
import pathlib

import support
import tiny_gguf
from support import CliTest, real_model


class DraftingTest(CliTest):
    def other(self):
        """The alphabet with two ids exchanged: the same sizes, another vocabulary."""
        letters = tiny_gguf.byte_alphabet()
        letters[ord("c")], letters[ord("x")] = letters[ord("x")], letters[ord("c")]
        return self.alphabet("other.gguf", letters=letters)


class Ngrams(DraftingTest):
    def build(self, name, *texts, options=()):
        files = [self.write(f"{name}.{i}.txt", text.encode()) for i, text in enumerate(texts)]
        output = self.folder / name
        done = self.succeeds("ngram", "build", "-m", self.endless_alphabet(), "-o", output, *options, *files)
        return output, done.stdout

    def generate(self, *arguments):
        return self.json_of("generate", "-m", self.endless_alphabet(), "--raw", "-p", "ab", "-n", 60, *arguments)

    def test_static(self):
        plain = self.generate("--spec-type", "none")
        without = self.generate("--spec-type", "ngram-cache", "--spec-draft-n-max", 4)
        file, said = self.build("alphabet.ngrams", "abcdefghijklmnopqrstuvwxyzabc", "yzab")
        self.assertRegex(said, r"^26 n-grams of 33 tokens in .*alphabet\.ngrams\n$")
        with_file = self.generate("--spec-type", "ngram-cache", "--spec-draft-n-max", 4, "-lcs", file)
        self.assertEqual(with_file["tokens"], plain["tokens"])
        self.assertEqual(without["tokens"], plain["tokens"])
        self.assertLess(with_file["stats"]["rounds"], without["stats"]["rounds"])

    def test_sizes(self):
        plain = self.generate("--spec-type", "none")
        for drafter in ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod"):
            found = {n: self.generate("--spec-type", drafter, "--spec-draft-n-max", 4, "--spec-ngram-size-n", n)
                     for n in (2, 24)}
            short = self.generate("--spec-type", drafter, "--spec-draft-n-max", 4, "--spec-ngram-size-n", 2,
                                  "--spec-ngram-size-m", 1)
            for one in (*found.values(), short):
                self.assertEqual(one["tokens"], plain["tokens"])
            # The text repeats itself: a longer n-gram has to wait for longer until it has come twice.
            self.assertLess(found[2]["stats"]["rounds"], found[24]["stats"]["rounds"])
            self.assertLess(found[2]["stats"]["rounds"], short["stats"]["rounds"])
            self.assertEqual(found[24]["settings"]["ngram_size_n"], 24)
            self.assertEqual(short["settings"]["ngram_size_m"], 1)
        hits = [self.generate("--spec-type", "ngram-map-k4v", "--spec-draft-n-max", 4, "--spec-ngram-size-n", 2,
                              "--spec-ngram-min-hits", n)["stats"]["rounds"] for n in (1, 2)]
        self.assertLess(*hits)
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "a")
        self.fails(2, "--spec-ngram-size-n", *base, "--spec-ngram-size-n", 4)  # auto asks none of them
        self.fails(2, "--spec-ngram-size-m", *base, "--spec-type", "lookup", "--spec-ngram-size-m", 4)
        self.fails(2, "ngram-map-k4v", *base, "--spec-type", "ngram-simple", "--spec-ngram-min-hits", 2)
        for bad in (0, -1, 1025, 1000000, "x"):
            self.fails(2, "--spec-ngram-size-n", *base, "--spec-type", "ngram-simple", "--spec-ngram-size-n", bad)

    def test_nodes(self):
        plain = self.generate("--spec-type", "none")
        for options in (("--spec-type", "recycling", "--spec-draft-n-max", 6), ("--spec-draft-n-max", 6), ()):
            found = self.generate(*options, "--spec-draft-nodes", 2)
            self.assertEqual(found["tokens"], plain["tokens"])
            self.assertEqual(found["settings"]["n_nodes"], 2)
            stats = found["stats"]
            self.assertGreater(stats["drafted"], 0)
            self.assertLessEqual(len(stats["drafted_per_position"]), 2)
            self.assertLessEqual(stats["drafted"], 2 * stats["rounds"])
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "a")
        self.fails(2, "--spec-draft-nodes", *base, "--spec-type", "none", "--spec-draft-nodes", 4)
        for bad in (0, -1, 64, 1000000, "x"):
            self.fails(2, "--spec-draft-nodes", *base, "--spec-draft-nodes", bad)

    def test_dynamic(self):
        file = self.folder / "learned.ngrams"
        base = ("--spec-type", "ngram-cache", "--spec-draft-n-max", 4, "-lcd", file)
        rounds = []
        for _ in range(4):
            found = self.generate(*base)
            rounds.append(found["stats"]["rounds"])
            self.assertTrue(file.exists())
        self.assertLess(rounds[-1], rounds[0])
        self.assertFalse(list(self.folder.glob("*.new")))
        # What was counted beforehand is a beginning.
        begun, _ = self.build("begun.ngrams", "abcdefghijklmnopqrstuvwxyz" * 5, options=("--dynamic",))
        found = self.generate("--spec-type", "ngram-cache", "--spec-draft-n-max", 4, "-lcd", begun)
        self.assertLess(found["stats"]["rounds"], rounds[0])

    def test_interrupted_files_stay(self):
        file = self.folder / "kept.ngrams"
        self.generate("-lcd", file)
        before = file.read_bytes()
        (self.folder / "kept.ngrams.new").mkdir()  # nothing can be written there
        done = support.run("generate", "-m", self.endless_alphabet(), "--raw", "-p", "ab", "-lcd", file)
        self.assertEqual(done.returncode, 1)
        self.assertIn("[io]", done.stderr)
        self.assertEqual(file.read_bytes(), before)

    def test_bad_files(self):
        file, _ = self.build("good.ngrams", "abcabcabd")
        good = file.read_bytes()
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "a")
        for option in ("-lcs", "-lcd"):
            for name, data, expected in [
                ("cut", good[:-3], "[corrupt-file]"),
                ("empty", b"", "[corrupt-file]"),
                ("longer", good + b"x", "[corrupt-file]"),
                ("bit", good[:70] + bytes([good[70] ^ 1]) + good[71:], "[corrupt-file]"),
                ("text", b"pairs of tokens\n" * 20, "[corrupt-file]"),
            ]:
                self.fails(1, expected, *base, option, self.write(name, data))
            self.fails(1, "[io]", *base, option, self.folder)
            self.succeeds(*base, option, file)
            self.fails(1, "[vocabulary-mismatch]", *base[:2], self.other(), *base[3:], option, file)
        self.fails(1, "[io]", *base, "-lcs", self.folder / "none")

    def test_usage(self):
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "a")
        self.fails(2, "--spec-type lookup", *base, "--spec-type", "lookup", "-lcs", "x")
        self.fails(2, "--spec-type none", *base, "--spec-type", "none", "-lcd", "x")
        self.fails(2, "TEXT", "ngram", "build", "-m", self.endless_alphabet(), "-o", self.folder / "x")
        text = self.write("short.txt", b"a")
        self.fails(1, "[empty-prompt]", "ngram", "build", "-m", self.endless_alphabet(), "-o", self.folder / "x", text)
        self.fails(2, "--log2-entries", "ngram", "build", "-m", self.endless_alphabet(), "-o", self.folder / "x",
                   "--log2-entries", 40, text)
        long = self.write("long.txt", b"abcabc")
        self.fails(1, "[io]", "ngram", "build", "-m", self.endless_alphabet(), "-o", self.folder / "no" / "x", long)


class Trees(CliTest):
    def test_text_is_the_same(self):
        model = self.endless_alphabet()
        for sampling in ((), ("--temp", 3, "--seed", 5)):
            base = ("generate", "-m", model, "--raw", "-p", "abc", "-n", 50, *sampling)
            plain = self.json_of(*base, "--spec-type", "none")
            for tree in ("1", "3,2,1,1", "63", "2,2,2,2,2,2,2", "auto"):
                for more in ((), ("--spec-draft-n-max", 3), ("--spec-type", "draft", "--spec-draft-n-max", 6)):
                    found = self.json_of(*base, "-md", self.twin(model), "--spec-tree", tree, *more)
                    self.assertEqual(found["tokens"], plain["tokens"], (tree, more))

    def test_trees_are_drafted(self):
        model = self.endless_alphabet()
        found = self.json_of("generate", "-m", model, "-md", self.twin(model), "--raw", "-p", "abc", "-n", 50, "--spec-type",
                             "draft", "--spec-tree", "3,2,1", "--spec-draft-n-max", 3)
        self.assertEqual(max(len(found["stats"]["drafted_per_position"]), 0), 3)
        rounds = found["stats"]["rounds"] - found["stats"]["plain"]
        self.assertGreater(found["stats"]["drafted"], 3 * rounds)

    def test_auto(self):
        """A tree where the model is unsure, at a fixed depth only where it is asked for."""
        model = pathlib.Path(__file__).parents[1] / "golden" / "random" / "granite.gguf"
        base = ("generate", "-m", model, "-md", self.twin(model), "--raw", "-p", "abc", "-n", 50, "--ignore-eos", "--spec-type",
                "draft", "--spec-draft-n-max", 3)
        auto = ("--spec-tree", "auto")
        chains, trees, few = (self.json_of(*base, *more) for more in ((), auto, (*auto, "--spec-draft-nodes", 4)))
        self.assertEqual(trees["tokens"], chains["tokens"])
        self.assertEqual(few["tokens"], chains["tokens"])
        self.assertLessEqual(chains["stats"]["drafted"], 3 * chains["stats"]["rounds"])
        self.assertGreater(trees["stats"]["drafted"], 3 * trees["stats"]["rounds"])
        self.assertLessEqual(few["stats"]["drafted"], 4 * few["stats"]["rounds"])
        # Coupled tokens, too; drawn ones are chains.
        for acceptance, compare in (("match", self.assertGreater), ("rejection", self.assertLessEqual)):
            sampled = (*base, "--temp", 0.5, "--seed", 6, "--spec-acceptance", acceptance)
            stats = self.json_of(*sampled, *auto)["stats"]
            compare(stats["drafted"], 3 * stats["rounds"], acceptance)

    def test_rejection(self):
        model = self.endless_alphabet()
        # Which text of its law the seed gives depends on clocks; some of them would end early.
        done = self.json_of("generate", "-m", model, "-md", self.twin(model), "--raw", "-p", "abc", "-n", 50, "--temp", 3,
                            "--ignore-eos", "--spec-acceptance", "rejection", "--spec-tree", "3,2,1")
        self.assertEqual(len(done["tokens"]), 50)

    def test_usage(self):
        base = ("generate", "-m", self.alphabet(), "-p", "a")
        self.fails(2, "without a draft model", *base, "--spec-tree", "3,2")
        self.fails(2, "without a draft model", *base, "--spec-tree", "auto")
        for tree in ("3,2", "auto"):
            self.fails(2, "verifies chains", *base, "-md", self.twin(self.alphabet()), "--temp", 1, "--spec-acceptance", "block",
                       "--spec-tree", tree)
        for bad in ("0", "3,", ",3", "3,,2", "64", "1000000", "a", "3 2", "-1", "1.5", ",".join(["1"] * 64)):
            self.fails(2, "--spec-tree", *base, "-md", self.twin(self.alphabet()), "--spec-tree", bad)


class OtherTokenizers(DraftingTest):
    def test_text_is_the_same(self):
        model, other = self.endless_alphabet(), self.other()
        for sampling in ((), ("--temp", 3, "--seed", 5)):
            base = ("generate", "-m", model, "--raw", "-p", "ab", "-n", 50, *sampling)
            plain = self.json_of(*base, "--spec-type", "none")
            for how in ("auto", "intersection", "realignment"):
                for depth in ((), ("--spec-type", "draft", "--spec-draft-n-max", 5)):
                    found = self.json_of(*base, "-md", other, "--draft-translation", how, *depth)
                    self.assertEqual(found["tokens"], plain["tokens"], (how, depth))
                    if depth:
                        self.assertGreater(found["stats"]["drafted"], 40)

    def test_it_says_so(self):
        done = self.succeeds("generate", "-m", self.alphabet(), "-md", self.other(), "--raw", "-p", "ab", "-n", 4)
        self.assertIn("another tokenizer", done.stderr)
        done = self.succeeds("generate", "-m", self.alphabet(), "-md", self.twin(self.alphabet()), "--raw", "-p", "ab", "-n", 4)
        self.assertNotIn("tokenizer", done.stderr)

    def test_usage(self):
        base = ("generate", "-m", self.alphabet(), "--raw", "-p", "ab")
        self.fails(2, "--spec-tree", *base, "-md", self.other(), "--spec-tree", "2,1")
        self.fails(2, "without a draft model", *base, "--draft-translation", "realignment")
        self.fails(2, "of the target's tokenizer", *base, "-md", self.twin(self.alphabet()), "--draft-translation", "realignment")
        self.fails(2, "--draft-translation", *base, "-md", self.other(), "--draft-translation", "guess")


class OwnFile(CliTest):
    def test_target_as_its_own_draft(self):
        link = self.folder / "link.gguf"
        link.symlink_to(self.alphabet())
        for file in (self.alphabet(), link):
            base = ("generate", "-m", self.alphabet(), "-md", file, "--raw", "-p", "ab", "-n", 4)
            for unchanged in ((), ("--quantize-draft", "none"), ("--keep-packed",)):
                self.fails(2, "the target's own file as draft model", *base, *unchanged)
            for cheaper in (("--draft-vocab", 250), ("--quantize-draft", "q4_0")):
                found = self.json_of(*base, *cheaper, "--spec-draft-n-max", 4)
                self.assertEqual(found["text"], "cdef")
                self.assertGreater(found["stats"]["drafted"], 0)
        # A file with the same content is another file.
        self.succeeds("generate", "-m", self.alphabet(), "-md", self.twin(self.alphabet()), "--raw", "-p", "ab", "-n", 4)


class InFourBits(CliTest):
    """A file that q4_0 makes no smaller."""

    def test_as_a_draft_model(self):
        head = {"output.weight": tiny_gguf.zeros(tiny_gguf.N_VOCAB, tiny_gguf.D_MODEL)}
        pure = self.alphabet("pure.gguf", tensor_overrides=head)
        base = ("generate", "--raw", "-p", "ab", "-n", 4, "-m")
        found = self.json_of(*base, self.alphabet(), "-md", pure, "--spec-draft-n-max", 4)
        self.assertEqual(found["text"], "cdef")
        self.assertGreater(found["stats"]["drafted"], 0)
        self.fails(2, "which nothing needs", *base, self.alphabet(), "-md", pure, "--quantize-draft", "q4_0")


class OwnLayers(CliTest):
    def test_text_is_the_same(self):
        model = self.endless_alphabet()
        for sampling in ((), ("--temp", 3, "--seed", 5)):
            base = ("generate", "-m", model, "--raw", "-p", "ab", "-n", 50, *sampling)
            plain = self.json_of(*base, "--spec-type", "none")
            for more in ((), ("--spec-layers", "0-0"), ("--spec-layers", 0, "--spec-draft-n-max", 5)):
                found = self.json_of(*base, "--spec-type", "self", *more)
                self.assertEqual(found["tokens"], plain["tokens"], more)
            # All layers of this model, which has one.
            self.assertEqual(found["stats"]["accepted"], found["stats"]["drafted"])
            self.assertGreater(found["stats"]["drafted"], 30)
            both = self.json_of(*base, "--spec-type", "lookup,self")
            self.assertEqual(both["tokens"], plain["tokens"])
            self.assertNotIn("failed", json.dumps(both))
        state = self.folder / "state"
        for layers in ((), ("--spec-layers", "0")):
            self.succeeds(*base, "--spec-type", "self", "--spec-state", state, *layers)
        self.assertIn(b"self 0", state.read_bytes())

    def test_usage(self):
        base = ("generate", "-m", self.alphabet(), "--raw", "-p", "ab")
        self.fails(2, "--spec-type self", *base, "--spec-layers", "4")
        for bad in ("", "a", "-1", "3-1", "0,0", "1,0", "0-2,2", "1,", "1.5", "99999999"):
            self.fails(2, "--spec-layers", *base, "--spec-type", "self", f"--spec-layers={bad}")
        self.fails(2, "[invalid-option]", *base, "--spec-type", "self", "--spec-layers", "1")
        self.fails(2, "[invalid-option]", *base, "--spec-type", "self", "--spec-layers", "0-1")


class Sinks(CliTest):
    def test_windows_with_first_tokens(self):
        model = real_model("gemma-3-270m")
        text = self.write("long.txt", " ".join(f"{i} times {i} is {i * i}." for i in range(90)).encode())
        base = ("generate", "-m", model, "--raw", "-f", text, "-n", 16, "--logprobs", 0)
        without = self.json_of(*base, "--spec-type", "none")
        self.assertGreater(without["stats"]["prompt_tokens"], 600)  # beyond the window of 512
        plain = self.json_of(*base, "--spec-type", "none", "--sinks", 4)
        self.assertNotEqual(plain["logprobs"], without["logprobs"])
        drafted = self.json_of(*base, "--spec-type", "lookup", "--spec-draft-n-max", 7, "--sinks", 4)
        self.assertEqual(drafted["tokens"], plain["tokens"])
        self.assertEqual(drafted["logprobs"], plain["logprobs"])

    def test_usage(self):
        for device in ("cpu", "cuda"):
            self.fails(2, "sliding windows", "generate", "-m", self.alphabet(), "-p", "a", "--sinks", 4, "--device", device)
        self.fails(2, "of the context", "generate", "-m", real_model("gemma-3-270m"), "-p", "a", "--sinks", 1 << 20)
        cached = self.folder / "prompt.cache"
        base = ("generate", "-m", real_model("gemma-3-270m"), "--raw", "-p", "One two three", "-n", 4,
                "--prompt-cache", cached)
        self.succeeds(*base)
        self.fails(1, "sinks 4", *base, "--sinks", 4)


if __name__ == "__main__":
    support.main()
