"""Masks of random beginnings beside those of another engine, llguidance: python3 compare_masks.py MODEL [N] [--table]

MODEL is a GGUF file, whose vocabulary is used; N beginnings are compared, 10000 if not told otherwise. It needs
PyPI's `llguidance`, `gguf` and `numpy`. Exit status 1 where a difference has no known reason. --table writes the
table of docs/design/constraints.md to stdout.
"""

import collections
import json
import random
import re
import sys

import gguf
import llguidance
import numpy

from asking import Foredraft

# What both engines are told of blanks. Numbers of any length are left out, since their lengths are bounded here, and
# \d, which is of ASCII alone here.
BLANKS = r"( |\n{1,2}[ \t]{0,20})?"


def tree():
    node = {"type": "object", "properties": {"v": {"enum": [1, 2, 10]}, "next": {"$ref": "#/$defs/n"}}, "required": ["v"],
            "additionalProperties": False}
    return {"$ref": "#/$defs/n", "$defs": {"n": node}}


def closed(properties, required=None):
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required,
            "additionalProperties": False}


GRAMMARS = {
    "choice": ("regex", "yes|no|maybe|not at all|nobody"),
    "date": ("regex", r"[12][0-9]{3}-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])"),
    "name": ("regex", r"[A-Z][a-z]+( [A-Z][a-z]+){0,3}"),
    "words": ("regex", r"(the|then|there|these|a|an|and)( (the|then|there|these|a|an|and))*\."),
    "counted": ("regex", r"(ab|a|ba){3,9}c"),
    "letters": ("regex", r"[a-zàéèüñ中文]{2,12}!"),
    "version": ("regex", r"v?[0-9]{1,3}(\.[0-9]{1,3}){1,2}(-(alpha|beta|rc)[0-9]?)?"),
    "uuid": ("regex", r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "balanced": ("gbnf", 'root ::= "(" root* ")" | "[" root* "]"'),
    "arithmetic": ("gbnf", 'root ::= term (" + " term)*\nterm ::= [0-9]+ | "(" root ")"'),
    "list": ("gbnf", 'root ::= ("- " item "\\n")+\nitem ::= [a-z] [a-z ]{0,20}'),
    "calls": ("gbnf", 'root ::= name "(" (arg (", " arg)*)? ")"\nname ::= [a-z_]+\narg ::= "\\"" [a-z ]* "\\"" | [0-9]{1,4} | root'),
    "dialogue": ("gbnf", 'root ::= line{2,4}\nline ::= ("A" | "B") ": " [^\\n]{1,30} "\\n"'),
    "flat": ("schema", closed({"city": {"enum": ["Paris", "Rome", "Prague"]}, "ok": {"type": "boolean"}})),
    "optional": ("schema", closed({"a": {"type": "null"}, "ab": {"type": "boolean"}, "b": {"const": "x"}}, ["b"])),
    "array": ("schema", {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 4}),
    "recursive": ("schema", tree()),
    "integers": ("schema", closed({"age": {"type": "integer", "minimum": 0, "maximum": 130},
                                   "year": {"type": "integer", "minimum": 1900, "maximum": 2030}})),
    "pattern": ("schema", closed({"id": {"type": "string", "pattern": "^[a-z]{2,5}-[0-9]{3}$"}})),
    "union": ("schema", {"anyOf": [closed({"tool": {"const": "go"}, "to": {"enum": ["north", "south"]}}),
                                   closed({"tool": {"const": "stop"}}), {"type": "null"}]}),
    "string": ("schema", closed({"text": {"type": "string", "maxLength": 12}})),
}

def vocabulary(file):
    """The bytes of each token; control tokens have none."""
    fields = gguf.GGUFReader(file).fields
    tokens = [bytes(fields["tokenizer.ggml.tokens"].parts[i]).decode() for i in fields["tokenizer.ggml.tokens"].data]
    kinds = [int(fields["tokenizer.ggml.token_type"].parts[i][0]) for i in fields["tokenizer.ggml.token_type"].data]
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(b): b for b in printable}
    byte_of.update({chr(256 + n): b for n, b in enumerate(b for b in range(256) if b not in printable)})
    pieces = [bytes(byte_of[c] for c in token) if kind == 1 else b"" for token, kind in zip(tokens, kinds)]
    return pieces, int(fields["tokenizer.ggml.eos_token_id"].parts[-1][0])


class Other:
    """llguidance over the same vocabulary."""

    def __init__(self, pieces, eos):
        class Tokens:
            eos_token_id = eos
            bos_token_id = None
            tokens = [piece or f"<control {i}>".encode() for i, piece in enumerate(pieces)]
            special_token_ids = [i for i, piece in enumerate(pieces) if not piece]

            def __call__(self, text):
                return list(text)

        self.eos = eos
        self.special = set(Tokens.special_token_ids)
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokens()))

    def begin(self, kind, text):
        # Else it asks for one spelling of what is forced, where any is allowed here.
        head = '%llguidance {"no_forcing": true}\n'
        if kind == "schema":
            schema = {**text, "x-guidance": {"whitespace_pattern": BLANKS, "whitespace_flexible": True}}
            lark = f"{head}start: %json {json.dumps(schema)}\n"
        elif kind == "gbnf":
            lark = llguidance.gbnf_to_lark.gbnf_to_lark(text).replace("%llguidance {}\n", head)
        else:
            lark = f"{head}start: /{text}/\n"
        grammar = llguidance.LLMatcher.grammar_from_lark(lark)
        matcher = llguidance.LLMatcher(self.tokenizer, grammar)
        assert not matcher.is_error(), matcher.get_error()
        return matcher

    def mask(self, matcher):
        if matcher.is_stopped():
            return True, set()
        bits = numpy.unpackbits(numpy.frombuffer(matcher.compute_bitmask(), numpy.uint8), bitorder="little")
        allowed = set(map(int, numpy.nonzero(bits)[0]))
        return self.eos in allowed, allowed - self.special


def reason(piece, prefix):
    """escape: the engines know different ways to escape a character of a string. DEL: it may stand in a string of
    JSON as it is (RFC 8259, 7), which llguidance does not let it."""
    if b"\x7f" in piece:
        return "DEL"
    if b"\\" in piece or re.search(rb"\\(u[0-9a-fA-F]{0,4})?$", prefix):
        return "escape"
    return None


def compare(name, ours, other, pieces, wanted, rng):
    kind, text = GRAMMARS[name]
    error = ours.grammar(kind, json.dumps(text) if kind == "schema" else text)
    assert error is None, error
    counts = collections.Counter()
    seen = set()
    for _ in range(2 * wanted):  # some grammars have fewer beginnings
        if len(seen) >= wanted:
            break
        matcher, tokens = other.begin(kind, text), []
        while len(tokens) < 40:
            end, allowed = ours.mask(tokens)
            end2, allowed2 = other.mask(matcher)
            if tuple(tokens) not in seen:
                seen.add(tuple(tokens))
                counts["beginnings"] += 1
                prefix = b"".join(pieces[t] for t in tokens)
                different = allowed ^ allowed2
                counts["different"] += bool(different) or end != end2
                for token in different:
                    why = reason(pieces[token], prefix)
                    counts[why] += 1
                    if why is None and counts[why] <= 3:
                        who = "foredraft" if token in allowed else "llguidance"
                        print(f"{name}: behind {prefix!r} only {who} allows {pieces[token]!r}", file=sys.stderr)
                if end != end2:
                    counts[None] += 1
                    print(f"{name}: behind {prefix!r} only {'foredraft' if end else 'llguidance'} may end", file=sys.stderr)
            both = sorted(allowed & allowed2)
            if not both or len(seen) >= wanted:
                break
            # Long tokens finish soon and common ones are short: both kinds are wanted.
            token = rng.choice(both) if rng.random() < 0.5 else max(rng.sample(both, min(4, len(both))), key=lambda t: len(pieces[t]))
            tokens.append(token)
            assert matcher.consume_token(token), matcher.get_error()
    return counts


def main(model, n, table):
    pieces, eos = vocabulary(model)
    ours, other, rng = Foredraft(), Other(pieces, eos), random.Random(1)
    ours.vocabulary(pieces)
    total, unexplained = collections.Counter(), 0
    if table:
        print("| grammar | beginnings | masks that differ | tokens: DEL | escapes | no known reason |\n|---|---|---|---|---|---|")
    for name in GRAMMARS:
        counts = compare(name, ours, other, pieces, -(-n // len(GRAMMARS)), rng)
        total += counts
        row = [counts["beginnings"], counts["different"], counts["DEL"], counts["escape"], counts[None]]
        print("| " + " | ".join(map(str, [f"{GRAMMARS[name][0]}: {name}", *row])) + " |", flush=True)
        unexplained += counts[None]
    print("| all | " + " | ".join(str(total[k]) for k in ("beginnings", "different", "DEL", "escape", None)) + " |")
    return 1 if unexplained else 0


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[2:] if a.isdigit()]
    sys.exit(main(sys.argv[1], numbers[0] if numbers else 10000, "--table" in sys.argv))
