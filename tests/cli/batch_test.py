"""foredraft batch: the prompts of a file, several at once."""

import json
import signal
import subprocess

import support
from support import CliTest


class Batch(CliTest):
    PROMPTS = ("ab", "uvw", "abcabcab", "z", "mnopqrstuvwxyz", "a", "xyzxyz")

    def prompts(self, texts=PROMPTS, name="prompts.jsonl"):
        return self.write(name, b"".join(json.dumps({"prompt": text}).encode() + b"\n" for text in texts))

    def batch(self, model, *arguments, n=40):
        done = self.succeeds("batch", "-m", model, "--raw", "-n", n, *arguments)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["index"] for line in lines], list(range(len(lines))))
        return lines, done.stderr

    def test_texts_are_those_of_generate(self):
        model, other = self.endless_alphabet(), self.alphabet("other.gguf")
        sampled = ("--temp", 3, "--seed", 7)
        for method in ((), ("--spec-type", "none"), ("--spec-type", "lookup", "--spec-draft-n-max", 4), sampled,
                       ("-md", self.twin(model), "--spec-draft-n-max", 3), ("-md", other),
                       ("-md", self.twin(model), *sampled), ("-md", other, "--spec-type", "draft", "--spec-tree", "2,1"),
                       ("--ignore-eos", "-t", 1), ("--regex", "[a-z]{3,9}")):
            seed = sampled if "--seed" in method else ()
            regex = method if "--regex" in method else ()
            base = [self.json_of("generate", "-m", model, "--raw", "-n", 40, "-p", text, "--spec-type", "none", *seed,
                                 *regex) for text in self.PROMPTS]
            for parallel in (1, 3, 50):
                with self.subTest(method=method, parallel=parallel):
                    lines, summary = self.batch(model, "-f", self.prompts(), "--parallel", parallel, *method)
                    self.assertEqual(len(lines), len(self.PROMPTS))
                    for line, alone in zip(lines, base):
                        for what in ("tokens", "text", "finish_reason"):
                            self.assertEqual(line[what], alone[what])
                        self.assertEqual(line["stats"]["prompt_tokens"], alone["stats"]["prompt_tokens"])
                    if "--spec-draft-n-max" in method:
                        self.assertGreater(sum(line["stats"]["drafted"] for line in lines), 0)
                        self.assertIn("accepted", summary)
                    self.assertIn(f"{min(parallel, 7)} texts at once", summary)
                    self.assertIn("prompts: 7 of 7", summary)

    def test_ends(self):
        lines, _ = self.batch(self.alphabet(), "-f", self.prompts())
        self.assertTrue(lines[0]["text"].endswith("xyz"))
        self.assertEqual({line["finish_reason"] for line in lines}, {"stop"})
        lines, _ = self.batch(self.endless_alphabet(), "-f", self.prompts(), n=3)
        self.assertEqual([line["text"] for line in lines[:2]], ["cde", "xyz"])
        paragraphs = self.write("prompts.txt", b"ab\n\nuvw\n")
        lines, _ = self.batch(self.endless_alphabet(), "-f", paragraphs, n=3)
        self.assertEqual([line["text"] for line in lines], ["cde", "xyz"])

    def test_a_prompt_that_does_not_fit_has_a_line(self):
        long = "a" * 50
        expected = {"ab": "cde", "uvw": "xyz", long: None}
        for texts in (("ab", long, "uvw"), (long, "ab", "uvw"), ("ab", "uvw", long), (long,), (long, long)):
            for parallel in (1, 2, 8):
                done = support.run("batch", "-m", self.endless_alphabet(), "--raw", "-n", 3, "-c", 20, "-f",
                                   self.prompts(texts), "--parallel", parallel)
                self.assertEqual(done.returncode, 1)
                lines = [json.loads(line) for line in done.stdout.splitlines()]
                self.assertEqual([line["index"] for line in lines], list(range(len(texts))))
                for text, line in zip(texts, lines):
                    self.assertEqual(line.get("text"), expected[text])
                    self.assertEqual("a prompt of 50 tokens" in line.get("error", ""), text == long)
                self.assertIn(f"prompts: {len(texts)} of {len(texts)}", done.stderr)

    def test_usage(self):
        base = ("batch", "-m", self.alphabet(), "-f", self.prompts())
        self.fails(2, "--parallel 0", *base, "--parallel", 0)
        self.fails(2, "--file", "batch", "-m", self.alphabet())
        for option in (("--context-shift",), ("--spec-state", "x"), ("--spec-memory", "x"), ("--trace", "x")):
            self.fails(2, f"'{' '.join(option)}', which it does not take", *base, *option)
        self.fails(1, "[empty-prompt]", *base[:3], "-f", self.write("none.jsonl", b"\n"))
        self.fails(1, "line 2", *base[:3], "-f", self.write("bad.jsonl", b'{"prompt": "a"}\n{"text": "a"}\n'))
        self.fails(1, "[io]", *base[:3], "-f", "no/such/file")

    def test_interrupt(self):
        # Texts without an end: those that were begun end where they are. The first line comes behind the first step.
        prompts = self.prompts(("a" * 50001, "ab", "uvw", "z"))
        command = [support.PROGRAM, "batch", "-m", self.endless_alphabet(), "--raw", "-n", -1, "-c", 50000, "--parallel", 2,
                   "-f", prompts]
        # A parent that ignores SIGINT would hand that down.
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
            self.assertIn("error", json.loads(process.stdout.readline()))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        lines = [json.loads(line) for line in out.decode().splitlines()]
        self.assertEqual([line["finish_reason"] for line in lines], ["cancelled", "cancelled"])
        self.assertIn("prompts: 3 of 4", err.decode())


if __name__ == "__main__":
    support.main()
