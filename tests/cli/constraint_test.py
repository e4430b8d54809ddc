"""--json-schema, --grammar, --grammar-file and --regex, as a user meets them: python3 constraint_test.py PROGRAM"""

import json

import support
from support import CliTest

SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0}},
     "required": ["name", "age"]},
    {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 3},
    {"type": "object", "properties": {"ok": {"type": "boolean"}, "why": {"type": ["string", "null"], "maxLength": 30}},
     "required": ["ok"], "additionalProperties": False},
]


class Constraint(CliTest):
    def generate(self, *arguments):
        return self.json_of("generate", "-m", self.alphabet(), "--raw", "-p", "ab", "-n", 120, *arguments)

    def test_patterns_and_grammars(self):
        file = self.write("answer.gbnf", b'root ::= ("yes" | "no") "."\n')
        for arguments, pattern in [(("--regex", r"[xy]{3}\d-END"), r"[xy]{3}\d-END"),
                                   (("--grammar", 'root ::= "<" [d-f]{2} ">"'), "<[d-f]{2}>"),
                                   (("--grammar-file", file), r"(yes|no)\.")]:
            texts = []
            for how in (("--spec-type", "none"), (), ("--spec-draft-n-max", 5),
                        ("--spec-acceptance", "match", "--temp", 1, "--seed", 3),
                        ("--spec-acceptance", "rejection", "--temp", 1)):
                result = self.generate(*arguments, *how)
                self.assertEqual(result["finish_reason"], "stop")
                self.assertRegex(result["text"], f"^{pattern}$")
                texts.append(result["text"])
            self.assertEqual(texts[0], texts[1])
            self.assertEqual(texts[0], texts[2])

    def test_forced_tokens_are_drafted(self):
        plain = self.generate("--regex", "abcdefgh_ijklmnop_qrst", "--spec-type", "none")
        forced = self.generate("--regex", "abcdefgh_ijklmnop_qrst", "--spec-draft-n-max", 8)
        self.assertEqual(plain["text"], "abcdefgh_ijklmnop_qrst")
        self.assertEqual(forced["text"], plain["text"])
        self.assertLess(forced["stats"]["rounds"], plain["stats"]["rounds"] / 2)

    def test_a_constraint_begins_behind_a_trigger(self):
        # Left alone the model writes the alphabet.
        for how in (("--spec-type", "none"), (), ("--spec-draft-n-max", 8)):
            once = self.generate("--regex", "<[0-9]{2}>", "--grammar-trigger", "hi", *how)
            self.assertRegex(once["text"], "^[a-g]*hi<[0-9]{2}>$")
            again = self.generate("--regex", "<00>", "--grammar-trigger", "hi", "--grammar-trigger", "de",
                                  "--grammar-repeat", *how)
            self.assertRegex(again["text"], "^cde<00>abcde<00>")

    def test_answers_of_a_chat(self):
        done = self.succeeds("chat", "-m", self.alphabet(), "-n", 20, "--regex", "yes|no", stdin="ab\nxy\n")
        self.assertRegex(done.stdout, r"^(yes|no)\n(yes|no)\n$")

    def test_schema_of_text_and_of_file(self):
        schema = json.dumps({"type": "object", "properties": {"b": {"enum": ["c", 1]}}, "required": ["b"]})
        for argument in (schema, self.write("schema.json", schema.encode())):
            self.assertIn(json.loads(self.generate("-j", argument)["text"]), ({"b": "c"}, {"b": 1}))

    def test_refused(self):
        base = ("generate", "-m", "no such model", "-p", "a")
        for arguments, status, expected in [
            (("--regex", "a", "--grammar", "root ::= x"), 2, "--grammar with --regex"),
            (("--regex", r"(a)\1"), 1, "back-reference"),
            (("--regex", ""), 2, "--regex"),
            (("--grammar-trigger", "a"), 2, "--grammar-trigger without"),
            (("--regex", "a", "--grammar-repeat"), 2, "--grammar-repeat without"),
            (("--regex", "a", "--grammar-trigger", ""), 2, "--grammar-trigger without text"),
            (("--grammar", 'root ::= root "a"'), 1, "begins with itself"),
            (("--grammar-file", "no such file"), 1, "[io]"),
            (("-j", '{"multipleOf": 2}'), 1, "`multipleOf`"),
            (("-j", "no such file"), 1, "[io]"),
        ]:
            self.fails(status, expected, *base, *arguments)

    def test_answers_of_a_model_are_valid(self):
        model = support.real_model("smollm2-135m")
        for schema in SCHEMAS:
            answers = [self.json_of("generate", "-m", model, "-p", "Tell me of a person.", "-n", 80, "-j",
                                    json.dumps(schema), *how)
                       for how in (("--spec-type", "none"), ())]
            self.assertEqual(answers[0]["text"], answers[1]["text"])
            if answers[0]["finish_reason"] != "stop":
                continue
            value = json.loads(answers[0]["text"])
            if schema["type"] == "array":
                self.assertTrue(1 <= len(value) <= 3 and set(value) <= {"red", "green", "blue"}, value)
            else:
                self.assertTrue(set(schema["required"]) <= set(value) <= set(schema["properties"]), value)


if __name__ == "__main__":
    support.main()
