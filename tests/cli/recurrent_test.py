"""Models with recurrent layers, as a user meets them: python3 recurrent_test.py PROGRAM"""

import pathlib

import support
from support import CliTest

MODELS = pathlib.Path(__file__).parent.parent / "golden" / "recurrent"


class Recurrent(CliTest):
    def generate(self, model, *arguments):
        return self.json_of("generate", "-m", model, "--raw", "-p", "to be or not to be, that is", "-n", 80,
                            "-c", 256, "--ignore-eos", *arguments)

    def test_speculation_changes_no_text(self):
        for name in ("lfm2", "mamba2", "nemotron_h", "qwen35", "qwen3next"):
            model = MODELS / f"{name}.gguf"
            plain = self.generate(model, "--spec-type", "none")
            self.assertEqual(len(plain["tokens"]), 80)
            # A copy of it drafts what it would write itself: nothing is rejected, however long the text.
            copy = self.twin(model)
            for more in ((), ("--spec-type", "lookup", "--spec-draft-n-max", 6), ("-md", copy),
                         ("-md", copy, "--spec-tree", "2,2,1"), ("-t", 1)):
                with self.subTest(model=name, more=more):
                    self.assertEqual(self.generate(model, *more)["tokens"], plain["tokens"])
            drafted = self.generate(model, "-md", copy, "--spec-type", "draft", "--quantize-draft", "none",
                                    "--spec-draft-n-max", 4)
            self.assertEqual(drafted["tokens"], plain["tokens"])
            self.assertEqual(drafted["stats"]["accepted"], drafted["stats"]["drafted"])
            self.assertGreater(drafted["stats"]["accepted"], 40)

    def test_inspected(self):
        for name, said in (("lfm2", r"3 layers \(2 recurrent\), d_model 32, 2 heads of 16 \(1 for keys and values\), d_ff 48"),
                           ("mamba2", r"2 layers \(2 recurrent\), d_model 32\n"),
                           ("nemotron_h", r"5 layers \(2 recurrent\), d_model 32, 2 heads of 16 \(1 for keys and values\), d_ff 48"),
                           ("qwen35", r"3 layers \(2 recurrent\), d_model 32, 2 heads of 16 \(1 for keys and values\), d_ff 48"),
                           ("qwen3next", r"3 layers \(2 recurrent\), d_model 32, 2 heads of 16")):
            done = self.succeeds("inspect", MODELS / f"{name}.gguf")
            self.assertRegex(done.stdout, said)
            found = self.json_of("inspect", MODELS / f"{name}.gguf", "--json")
            self.assertTrue(found["runs"])
            self.assertEqual(found["dimensions"]["n_recurrent_layers"], 2)
            self.assertGreater(found["memory"]["cache"], 0)

    def test_logits(self):
        for name in ("lfm2", "mamba2", "nemotron_h"):
            rows = self.json_lines_of("logits", "-m", MODELS / f"{name}.gguf", "-p", "to be or not", "--json")
            self.assertTrue(rows)

    def test_own_layers_do_not_draft(self):
        file = self.write("prompts.txt", b"to be or not to be\n")
        model = MODELS / "qwen35.gguf"
        self.succeeds("tune", "-m", model, "--raw", "-n", 6, "--rounds", 1, "-f", file)  # it tries others
        self.fails(1, "recurrent", "generate", "-m", model, "--raw", "-p", "a", "--spec-type", "self")

    def test_quantized_cache(self):
        done = support.run("generate", "-m", MODELS / "lfm2.gguf", "--raw", "-p", "a", "--cache-type-k", "q8_0",
                           "--cache-type-v", "q8_0")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("heads of 16 dimensions", done.stderr)
        # Where no layer attends, there is nothing to store so.
        model = MODELS / "mamba2.gguf"
        quantized = self.generate(model, "--cache-type-k", "q8_0", "--cache-type-v", "q8_0")
        self.assertEqual(quantized["tokens"], self.generate(model)["tokens"])


if __name__ == "__main__":
    support.main()
