"""Asks ask.cpp, which is compiled on first use, about constraints."""

import os
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def compiled():
    program = pathlib.Path(tempfile.gettempdir()) / f"foredraft-ask-{os.getuid()}"
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O2", f"-I{HERE.parents[1] / 'include'}",
                    str(HERE / "ask.cpp"), "-o", str(program)], check=True)
    return program


class Foredraft:
    def __init__(self):
        self.process = subprocess.Popen([compiled()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *lines):
        self.process.stdin.write("\n".join(lines) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def vocabulary(self, pieces):
        self.ask(f"vocabulary {len(pieces)}", *(piece.hex() for piece in pieces))

    def grammar(self, kind, text):
        """None, or why it is refused."""
        answer = self.ask(f"grammar {kind} {text.encode().hex()}")
        return None if answer == "ok" else answer

    def text(self, text):
        """accepted, begins or refused"""
        return self.ask(f"text {text.encode('utf-8', 'surrogatepass').hex()}")

    def mask(self, tokens):
        """Whether the text may end, and the allowed tokens; None behind a forbidden token."""
        words = self.ask("mask " + " ".join(map(str, tokens))).split()
        if words[0] == "dead":
            return None
        assert words[0] in "01", words
        return words[0] == "1", set(map(int, words[1:]))
