"""'foredraft tune' as a user meets it: python3 tune_test.py PROGRAM

Nothing here looks at the clock: which way wins among models of a few microseconds is chance.
"""

import json
import shlex

import support
from support import CliTest

PROMPTS = b"abcabc\n\nxyz\nab\n \n\n\nthe quick brown fox\n"


class Tune(CliTest):
    def tune(self, *arguments, prompts=PROMPTS, name="prompts.txt"):
        file = self.write(name, prompts)
        return ("tune", "-m", self.endless_alphabet(), "--raw", "-n", 12, "--rounds", 1, "-f", file, *arguments)

    def check(self, found, n_prompts, rounds):
        self.assertEqual(found["prompts"], n_prompts)
        for key in ("to_auto", "to_plain", "auto_to_plain"):
            ratio = found[key]
            self.assertEqual(ratio["prompts"], n_prompts)
            self.assertGreater(ratio["median"], 0)
            enough = ratio["prompts"] >= 6  # fewer have no interval
            self.assertEqual(ratio["low"] is not None, enough)
            self.assertEqual(ratio["high"] is not None, enough)
        tried = [(way["coordinate"], way["options"], way["draft_model"]) for way in found["tried"]]
        self.assertEqual(len(tried), len(set(tried)))
        self.assertIn(("drafters", "--spec-type none", True), tried)
        self.assertIn(("drafters", "--spec-type lookup", True), tried)
        if not found["beats_auto"]:
            self.assertNotIn("--spec-", found["command"])
        return tried

    def runs(self, command):
        """The command is one that `generate` takes, and its text that of plain decoding."""
        words = shlex.split(command)
        self.assertEqual(words[:2], ["foredraft", "generate"])
        self.assertIn("--raw", words)  # as the prompts were measured
        base = ("-p", "abcabc", "-n", 40)
        found = self.json_of(*words[1:], *base)
        plain = self.json_of("generate", "-m", self.endless_alphabet(), "--spec-type", "none", "--raw", *base)
        self.assertEqual(found["tokens"], plain["tokens"])

    def test_without_a_draft_model(self):
        found = self.json_of(*self.tune())
        tried = self.check(found, 3, 1)
        self.assertFalse(found["beats_auto"])  # three prompts are too few
        self.assertFalse([way for way in tried if "--spec-tree" in way[1] or "--spec-type draft" in way[1]])
        self.assertEqual(found["settings"]["max_tokens"], 12)
        self.runs(found["command"])

    def test_with_a_draft_model(self):
        model = self.endless_alphabet()
        done = self.succeeds(*self.tune("-md", model, "--quantize-draft", "q8_0", "-t", 1, "--json"))
        found = json.loads(done.stdout)
        tried = self.check(found, 3, 1)
        self.assertIn(("drafters", "--spec-type draft", True), tried)
        self.assertIn(("drafters", "", False), tried)
        self.assertIn(f"-md {shlex.quote(str(model))} --quantize-draft q8_0 -t 1", found["command"])
        self.assertFalse([way for way in tried if way[0] == "draft model"])  # it was said
        self.runs(found["command"])

    def test_enough_answers(self):
        lines = b"".join(json.dumps({"id": i, "prompt": "ab" * (i + 1)}).encode() + b"\n" for i in range(9))
        arguments = self.tune("--max-prompts", 7, prompts=lines, name="many.jsonl")
        found = self.json_of(*arguments)
        self.check(found, 7, 1)
        self.runs(found["command"])

    def test_text(self):
        done = self.succeeds(*self.tune())
        self.assertIn("3 of 3 prompts, at most", done.stderr)
        self.assertIn("speed by what was tried, auto = 1:", done.stdout)
        self.assertRegex(done.stdout, r"auto:  [\d.]+ times plain decoding\n")
        self.assertIn("too few", done.stdout)
        self.assertTrue(done.stdout.splitlines()[-1].startswith("  foredraft generate -m "), done.stdout)

    def test_progress(self):
        status, shown = support.run_on_terminal(*self.tune(), environment={"TERM": "xterm"}, stream="stderr")
        self.assertEqual(status, 0)
        self.assertIn(b"tuning [", shown)

    def test_chat_format(self):
        model = self.alphabet()
        file = self.write("chat.txt", b"hello\r\n\r\nagain\r\n")
        found = self.json_of("tune", "-m", model, "-n", 5, "--rounds", 3, "-f", file)
        self.check(found, 2, 3)
        self.assertNotIn("--raw", found["command"])

    def test_paths_with_blanks(self):
        model = self.write("a model's.gguf", self.endless_alphabet().read_bytes())
        file = self.write("one.txt", b"abc")
        found = self.json_of("tune", "-m", model, "--raw", "-n", 3, "--rounds", 1, "-f", file)
        self.runs(found["command"])

    def test_bad_prompts(self):
        base = ("tune", "-m", self.endless_alphabet(), "-f")
        for name, data, expected in [
            ("empty.txt", b"", "[empty-prompt]"),
            ("blank.txt", b" \n\t\n\n", "[empty-prompt]"),
            ("empty.jsonl", b"\n", "[empty-prompt]"),
            ("nul.txt", b"text\n\0more", "byte 5"),
            ("latin.txt", b"caf\xe9 au lait", "[corrupt-file]"),
            ("model.txt", self.endless_alphabet().read_bytes()[:5000], "[corrupt-file]"),
            ("field.jsonl", b'{"prompt": "a"}\n{"text": "b"}\n', "line 2"),
            ("number.jsonl", b'{"prompt": 7}\n', "line 1"),
            ("none.jsonl", b'{"prompt": ""}\n', "line 1"),
            ("array.jsonl", b'["prompt"]\n', "line 1"),
            ("cut.jsonl", b'{"prompt": "a"}\n\n{"prompt": "b\n', "line 3"),
            ("plain.jsonl", b"a paragraph\n", "[corrupt-file]"),
        ]:
            done = self.fails(1, expected, *base, self.write(name, data))
            self.assertIn(name, done.stderr)
        self.fails(1, "[io]", *base, self.folder / "nothing")
        self.fails(1, "[io]", *base, self.folder)
        long = self.write("long.txt", b"a" * 600)
        self.fails(1, "[context-overflow]", "tune", "-m", self.alphabet(), "-f", long)

    def test_usage(self):
        base = self.tune()
        self.fails(2, "--file", "tune", "-m", self.endless_alphabet())
        self.fails(2, "-m", "tune", "-f", "x")
        self.fails(2, "add -md", *base, "--quantize-draft", "q8_0")
        self.fails(2, "--draft-vocab", *base, "-md", self.endless_alphabet(), "--draft-vocab-counts", "x")
        for bad in (("-n", 0), ("--max-prompts", 0), ("--rounds", 0), ("--rounds", "x"), ("--isa", "mmx")):
            self.fails(2, str(bad[0]).lstrip("-"), "tune", "-m", self.endless_alphabet(), "-f", "x", *bad)
        self.fails(2, "--temp", *base, "--temp", 1)


if __name__ == "__main__":
    support.main()
