"""--spec-state, --spec-memory and lists of drafters, as a user meets them: python3 state_test.py PROGRAM"""

import support
import tiny_gguf
from support import CliTest


class State(CliTest):
    def generate(self, *arguments, **options):
        return self.json_of("generate", "-m", self.endless_alphabet(), "--raw", "-p", "ab", "-n", 60, *arguments,
                            **options)

    def test_written_and_read(self):
        file = self.folder / "learned.state"
        plain = self.generate("--spec-type", "none")
        for _ in range(3):
            self.assertEqual(self.generate("--spec-state", file)["tokens"], plain["tokens"])
            self.assertTrue(file.read_bytes().startswith(b"FDTABLE\0"))
        self.assertFalse(list(self.folder.glob("*.new")))

    def test_other_drafters_stay(self):
        """What is known of drafters that do not take part is kept: the file only grows."""
        file = self.folder / "grows.state"
        sizes = []
        for more in (("--spec-type", "lookup"), (), ("-md", self.twin(self.endless_alphabet())),
                     ("-md", self.twin(self.endless_alphabet()), "--spec-tree", "2,1"), ("--spec-type", "lookup")):
            self.generate("--spec-state", file, *more)
            sizes.append(file.stat().st_size)
        self.assertEqual(sizes, sorted(sizes))
        self.assertEqual(sizes[-1], sizes[-2])
        self.assertEqual(len(set(sizes)), 4)

    def test_other_set_ups(self):
        file = self.folder / "threads.state"
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "ab", "-n", 60, "--spec-state", file)
        for threads, said in ((1, False), (1, False), (2, True), (2, False), (1, True)):
            done = self.succeeds(*base, "-t", threads)
            self.assertEqual("another set-up" in done.stderr, said, done.stderr)
        # A copy of another name is another model.
        copy = self.write("copy.gguf", self.endless_alphabet().read_bytes())
        done = self.succeeds("generate", "-m", copy, "--raw", "-p", "ab", "--spec-state", file, "-t", 1)
        self.assertIn("another set-up", done.stderr)

    def test_samples_and_fixed_depths(self):
        for more in (("--samples", 2, "--temp", 1, "--seed", 3), ("--spec-draft-n-max", 3), ("--spec-type", "suffix")):
            base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "ab", "-n", 30, *more)
            file = self.folder / "same.state"
            without = [text["tokens"] for text in self.json_lines_of(*base)]
            for _ in range(2):
                self.assertEqual([text["tokens"] for text in self.json_lines_of(*base, "--spec-state", file)], without)

    def test_bad_files(self):
        file = self.folder / "good.state"
        self.generate("--spec-state", file)
        good = file.read_bytes()
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "a", "--spec-state")
        for name, data, expected in [
            ("cut", good[:-3], "[corrupt-file]"),
            ("empty", b"", "[corrupt-file]"),
            ("longer", good + b"x", "[corrupt-file]"),
            ("bit", good[:70] + bytes([good[70] ^ 1]) + good[71:], "[corrupt-file]"),
            ("version", good[:8] + b"\x02" + good[9:], "version 2"),
            ("text", b"what was learned\n" * 20, "[corrupt-file]"),
        ]:
            bad = self.write(name, data)
            self.fails(1, expected, *base, bad)
            self.assertEqual(bad.read_bytes(), data)
        self.fails(1, "[io]", *base, self.folder)
        ngrams = self.folder / "x.ngrams"
        self.succeeds("ngram", "build", "-m", self.endless_alphabet(), "-o", ngrams, self.write("t.txt", b"abcabcabd"))
        self.fails(2, "kind", *base, ngrams)

    def test_nowhere_to_write(self):
        done = support.run("generate", "-m", self.endless_alphabet(), "--raw", "-p", "ab", "-n", 5, "--spec-state",
                           self.folder / "no" / "folder")
        self.assertEqual(done.returncode, 1)
        self.assertIn("[io]", done.stderr)

    def test_another_vocabulary(self):
        file = self.folder / "vocabulary.state"
        self.generate("--spec-state", file)
        letters = tiny_gguf.byte_alphabet()
        letters[0], letters[1] = letters[1], letters[0]
        other = self.write("other.gguf", tiny_gguf.alphabet_model(letters=letters))
        self.fails(1, "[vocabulary-mismatch]", "generate", "-m", other, "--raw", "-p", "a", "--spec-state", file)

    def test_usage(self):
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "a")
        self.fails(2, "--spec-state", *base, "--spec-state", "x", "--spec-type", "none")
        self.fails(2, "--spec-state", *base, "--spec-state", "")


class Memory(CliTest):
    KINDS = ("lookahead", "ngram-mod", "recycling", "suffix")

    def generate(self, *arguments):
        return self.json_of("generate", "-m", self.endless_alphabet(), "--raw", "-p", "ab", "-n", 60, *arguments)

    def test_a_run_goes_on_where_the_last_one_ended(self):
        """What one text taught is drafted in the next run, from its first round on; the text is the same."""
        plain = self.generate("--spec-type", "none")
        for kind in self.KINDS:
            with self.subTest(kind):
                folder = self.folder / "memory" / kind
                way = ("--spec-type", kind, "--spec-draft-n-max", 8, "--spec-memory", folder)
                first, second, third = (self.generate(*way) for _ in range(3))
                self.assertEqual(first["tokens"], plain["tokens"])
                self.assertEqual(second["tokens"], plain["tokens"])
                self.assertLess(second["stats"]["rounds"], first["stats"]["rounds"])
                self.assertLessEqual(third["stats"]["rounds"], second["stats"]["rounds"])
                self.assertEqual([file.name for file in folder.iterdir()], [kind])

    def test_one_folder_serves_all_drafters(self):
        folder = self.folder / "all"
        for _ in range(2):
            self.generate("--spec-memory", folder)
        self.assertEqual(sorted(file.name for file in folder.iterdir()), ["recycling", "suffix"])
        before = (folder / "recycling").read_bytes()
        self.generate("--spec-type", "suffix", "--spec-memory", folder)
        self.assertEqual((folder / "recycling").read_bytes(), before)

    def test_a_chat_keeps_what_it_learned(self):
        folder = self.folder / "chat"
        for _ in range(2):
            self.succeeds("chat", "-m", self.alphabet(), "--spec-memory", folder, stdin="Hi\n/reset\nHi\n")
            self.assertEqual(sorted(file.name for file in folder.iterdir()), ["recycling", "suffix"])

    def test_bad_files(self):
        for kind in self.KINDS:
            folder = self.folder / f"bad-{kind}"
            way = ("--spec-type", kind, "--spec-memory", folder)
            if kind == "lookahead":  # under a controller it learns nothing
                way += ("--spec-draft-n-max", 8)
            self.generate(*way)
            good = (folder / kind).read_bytes()
            base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "a", *way)
            for data in (good[:-3], b"", good + b"x", good[:-1] + bytes([good[-1] ^ 1]), b"learned\n" * 20):
                (folder / kind).write_bytes(data)
                self.fails(1, kind, *base)
                self.assertEqual((folder / kind).read_bytes(), data)
            (folder / kind).write_bytes(good)
            letters = tiny_gguf.byte_alphabet()
            letters[0], letters[1] = letters[1], letters[0]
            other = self.write("other.gguf", tiny_gguf.alphabet_model(letters=letters))
            self.fails(1, "[vocabulary-mismatch]", "generate", "-m", other, "--raw", "-p", "a", *way)
        # N-grams of another length are no memory of these.
        way = ("--spec-type", "ngram-mod", "--spec-memory", self.folder / "bad-ngram-mod")
        self.fails(2, "16-grams", "generate", "-m", self.endless_alphabet(), "--raw", "-p", "a", *way,
                   "--spec-ngram-size-n", 3)

    def test_nowhere_to_write(self):
        file = self.write("file", b"")
        self.fails(1, "[io]", "generate", "-m", self.endless_alphabet(), "--raw", "-p", "a", "-n", 5, "--spec-memory",
                   file / "folder")

    def test_usage(self):
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "a")
        for kind in ("none", "lookup"):
            self.fails(2, "suffix", *base, "--spec-memory", "x", "--spec-type", kind)
        self.fails(2, "--spec-memory", *base, "--spec-memory", "")


class Lists(CliTest):
    def test_text_is_the_same(self):
        model = self.endless_alphabet()
        base = ("generate", "-m", model, "--raw", "-p", "abc", "-n", 50)
        plain = self.json_of(*base, "--spec-type", "none")
        for more, expected in ((("--spec-type", "lookup,recycling"), "lookup,recycling"),
                               (("--spec-type", "suffix,ngram-mod,lookup", "--spec-draft-n-max", 4),
                                "suffix,ngram-mod,lookup"),
                               (("--spec-type", "lookup,draft-simple", "-md", self.twin(model)), "lookup,draft"),
                               (("--spec-lookup-min", 1), "auto"),
                               (("--spec-type", "lookup", "--spec-lookup-min", 32), "lookup")):
            found = self.json_of(*base, *more)
            self.assertEqual(found["tokens"], plain["tokens"], more)
            self.assertEqual(found["settings"]["speculation"], expected)
        found = self.json_of(*base, "--spec-type", "suffix,lookup")
        self.assertEqual([line.split(":")[0] for line in found["stats"]["drafters"]], ["lookup", "suffix"])
        reports = found["stats"]["by_drafter"]
        self.assertEqual(list(reports), ["lookup", "suffix"])
        for line, report in zip(found["stats"]["drafters"], reports.values()):
            self.assertIn(f"asked {report['asked']} times", line)
            self.assertEqual("parked" in line, report["parked"] is not None)
            if report["verified"] > 0:
                self.assertIn(f"{report['verified']} tokens verified, {report['accepted']} accepted", line)
        self.assertEqual(sum(report["accepted"] for report in reports.values()), found["stats"]["accepted"])

    def test_usage(self):
        base = ("generate", "-m", self.endless_alphabet(), "--raw", "-p", "a")
        for bad in ("lookup,lookup", "lookup,", ",lookup", "auto,lookup", "none,lookup", "lookup,medusa", "draft,draft-simple"):
            self.fails(2, "--spec-type", *base, "--spec-type", bad)
        self.fails(2, "add -md", *base, "--spec-type", "lookup,draft")
        self.fails(2, "no draft model", *base, "-md", "x", "--spec-type", "lookup,suffix")
        self.fails(2, "--spec-lookup-min", *base, "--spec-lookup-min", 3, "--spec-type", "suffix")
        for bad in (0, 33, "x"):
            self.fails(2, "--spec-lookup-min", *base, "--spec-lookup-min", bad)


if __name__ == "__main__":
    support.main()
