"""How the tests run the program, and where they find models."""

import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import unittest

import tiny_gguf

PROGRAM = None  # set by cli_test.py


def models_folder():
    chosen = os.environ.get("FOREDRAFT_MODELS")
    if chosen:
        return pathlib.Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "foredraft" / "models"


def real_model(name):
    """The file of a fetched model, or the test is skipped."""
    file = models_folder() / f"{name}.gguf"
    if not file.exists():
        raise unittest.SkipTest(f"no {file}: python3 examples/fetch_model.py {name}")
    return file


def run(*arguments, stdin="", environment=None, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          encoding="utf-8", errors="surrogateescape", timeout=600,
                          env={**os.environ, **(environment or {})}, **options)


def wait_for_handler(pid):
    """Until the process has a handler for SIGINT."""
    while True:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:") and int(line.split()[1], 16) & 1 << (signal.SIGINT - 1):
                return


def run_on_terminal(*arguments, environment, stream="stdout"):
    """What the program writes to stdout, or stderr, where that is a terminal; the other goes elsewhere."""
    controller, terminal = pty.openpty()
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: terminal}
    with subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, **streams,
                          env={**os.environ, **environment}) as process:
        os.close(terminal)
        output = b""
        while True:
            try:
                block = os.read(controller, 65536)
            except OSError:  # Linux reports the far end's closing this way
                break
            if not block:
                break
            output += block
    os.close(controller)
    return process.returncode, output


class CliTest(unittest.TestCase):
    """Every model of the tests in one folder, which FOREDRAFT_MODELS names."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def write(self, name, data):
        file = self.folder / name
        file.write_bytes(data)
        return file

    def alphabet(self, name="alphabet.gguf", **options):
        file = self.folder / name
        return file if file.exists() else self.write(name, tiny_gguf.alphabet_model(**options))

    def endless_alphabet(self, **options):
        """After z comes a."""
        return self.alphabet("endless.gguf", after_z=ord("a"), n_ctx=1 << 20, **options)

    def twin(self, model):
        """A file of its own with the same model, to draft for it."""
        return self.write(f"twin-{model.name}", model.read_bytes())

    def succeeds(self, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def json_of(self, *arguments, **options):
        """The one object on stdout, and nothing else there."""
        done = self.succeeds(*arguments, "--json", **options)
        self.assertTrue(done.stdout.endswith("}\n"), done.stdout[-200:])
        self.assertEqual(done.stdout.count("\n"), 1)

        def refuse(word):
            raise ValueError(f"{word} is not JSON")

        return json.loads(done.stdout, parse_constant=refuse)

    def json_lines_of(self, *arguments, **options):
        """The objects on stdout, one a line, and nothing else there."""
        return [json.loads(line) for line in self.succeeds(*arguments, "--json", **options).stdout.splitlines()]

    def fails(self, status, expected, *arguments, **options):
        """A message with `expected` in it on stderr, and nothing on stdout."""
        done = run(*arguments, **options)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertTrue(done.stderr.startswith("foredraft: error: "), done.stderr)
        self.assertIn(expected, done.stderr)
        return done


def main():
    global PROGRAM
    if len(sys.argv) < 2:
        sys.exit("usage: cli_test.py PROGRAM [unittest options]")
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(module="__main__", verbosity=1)
