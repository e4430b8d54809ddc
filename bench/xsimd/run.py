#!/usr/bin/env python3
"""Float kernels in our own vector operations and in those of xsimd: python3 bench/xsimd/run.py OUT XSIMD [XSIMD ...]

Each XSIMD is a folder that holds xsimd/xsimd.hpp. Writes OUT, a result file: equal bits, time of xsimd's over that of
our own in turns, and the functions that an unoptimised unit leaves behind, for each set that this machine runs. With
Debian's aarch64-linux-gnu-g++ and qemu-user also for Arm, there without times.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
import measured


class Set:
    """An instruction set: how it is compiled for, and run."""

    def __init__(self, flags, needs=None, compiler="g++", emulator=()):
        self.flags, self.needs, self.compiler, self.emulator = flags, needs, compiler, list(emulator)

    def runs(self):
        if self.emulator:
            return bool(shutil.which(self.compiler) and shutil.which(self.emulator[0]))
        return self.needs is None or self.needs in measured.cpu_flags()


SETS = {"portable": Set("-march=x86-64"), "avx2": Set("-march=x86-64-v3", "avx2"),
        "avx512": Set("-march=x86-64-v4", "avx512bw"),
        "neon": Set("-march=armv8.2-a", compiler="aarch64-linux-gnu-g++",
                    emulator=["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"])}


def version(folder):
    text = (folder / "xsimd/config/xsimd_config.hpp").read_text()
    return ".".join(re.search(rf"XSIMD_VERSION_{part}\s+(\d+)", text)[1] for part in ("MAJOR", "MINOR"))


def compiler():
    return subprocess.run(["g++", "--version"], check=True, capture_output=True, text=True).stdout.split("\n")[0]


def compile_to(of, path, source, *options):
    subprocess.run([of.compiler, "-std=c++20", "-Wno-psabi", f"-I{ROOT / 'include'}", "-isystem", "/usr/include/eigen3", *options,
                    "-o", path, HERE / source], check=True)


def functions_left(path):
    """Functions of a unit that another unit's linker may take instead of its own, but for the kernels themselves."""
    listed = subprocess.run(["nm", "-C", path], check=True, capture_output=True, text=True).stdout
    kernels = r"cpu::(rms_norm|rope|gated_activation|soft_cap)<"
    return sum(" W " in line and not re.search(kernels, line) for line in listed.splitlines())


def measure(folder, instruction_set, scratch):
    of = SETS[instruction_set]
    unit = [of.flags, f'-DFOREDRAFT_TRIAL_NAME="{instruction_set}"', "-c"]
    # By a link, because a compiler does not like its own folder in front of the others.
    alone = scratch / f"xsimd-{version(folder)}"
    alone.mkdir(exist_ok=True)
    if not (alone / "xsimd").exists():
        (alone / "xsimd").symlink_to(folder.resolve() / "xsimd")
    theirs = ["-isystem", alone, "-DFOREDRAFT_TRIAL_XSIMD"]
    own_unit, their_unit, sampling, program = (scratch / name for name in ("own.o", "theirs.o", "sampling.o", "trial"))
    left = {}
    for name, options in {"own": [], "xsimd": theirs}.items():
        compile_to(of, scratch / "unoptimised.o", "unit.cpp", "-O0", *unit, *options)
        left[name] = functions_left(scratch / "unoptimised.o")
    compile_to(of, own_unit, "unit.cpp", "-O3", *unit)
    compile_to(of, their_unit, "unit.cpp", "-O3", *unit, *theirs)
    compile_to(of, sampling, "sampling.cpp", "-O3", of.flags, "-c", *theirs)
    compile_to(of, program, "trial.cpp", "-O2", own_unit, their_unit, sampling)
    command = [*of.emulator, program, *(["bits"] if of.emulator else [])]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"functions_left": left, "cases": result["cases"]}


def main():
    out, folders = pathlib.Path(sys.argv[1]), [pathlib.Path(folder) for folder in sys.argv[2:]]
    result = {**measured.origin(sys.argv[0]), "compiler": compiler(), "xsimd": {}}
    with tempfile.TemporaryDirectory() as scratch:
        for folder in folders:
            result["xsimd"][version(folder)] = {name: measure(folder, name, pathlib.Path(scratch))
                                                 for name, of in SETS.items() if of.runs()}
    measured.write(out, result)


if __name__ == "__main__":
    main()
