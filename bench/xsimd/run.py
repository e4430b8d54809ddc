#!/usr/bin/env python3
"""Float kernels in our own vector operations and in those of xsimd: python3 bench/xsimd/run.py OUT XSIMD [XSIMD ...]

Each XSIMD is a folder that holds xsimd/xsimd.hpp. Writes OUT, a result file: equal bits, time of xsimd's over that of
our own in turns, and the functions that an unoptimised unit leaves behind, for portable and avx2.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
import measured

FLAGS = {"portable": "-march=x86-64", "avx2": "-march=x86-64-v3"}


def version(folder):
    text = (folder / "xsimd/config/xsimd_config.hpp").read_text()
    return ".".join(re.search(rf"XSIMD_VERSION_{part}\s+(\d+)", text)[1] for part in ("MAJOR", "MINOR"))


def compiler():
    return subprocess.run(["g++", "--version"], check=True, capture_output=True, text=True).stdout.split("\n")[0]


def compile_to(path, source, *options):
    subprocess.run(["g++", "-std=c++20", f"-I{ROOT / 'include'}", "-isystem", "/usr/include/eigen3", *options,
                    "-o", path, HERE / source], check=True)


def functions_left(path):
    """Functions of a unit that another unit's linker may take instead of its own, but for the kernels themselves."""
    listed = subprocess.run(["nm", "-C", path], check=True, capture_output=True, text=True).stdout
    kernels = r"cpu::(rms_norm|rope|gated_activation|soft_cap)<"
    return sum(" W " in line and not re.search(kernels, line) for line in listed.splitlines())


def measure(folder, instruction_set, scratch):
    unit = [FLAGS[instruction_set], f'-DFOREDRAFT_TRIAL_NAME="{instruction_set}"', "-c"]
    # By a link, because a compiler does not like its own folder in front of the others.
    alone = scratch / f"xsimd-{version(folder)}"
    alone.mkdir(exist_ok=True)
    if not (alone / "xsimd").exists():
        (alone / "xsimd").symlink_to(folder.resolve() / "xsimd")
    theirs = ["-isystem", alone, "-DFOREDRAFT_TRIAL_XSIMD"]
    own_unit, their_unit, program = scratch / "own.o", scratch / "theirs.o", scratch / "trial"
    left = {}
    for name, options in {"own": [], "xsimd": theirs}.items():
        compile_to(scratch / "unoptimised.o", "unit.cpp", "-O0", *unit, *options)
        left[name] = functions_left(scratch / "unoptimised.o")
    compile_to(own_unit, "unit.cpp", "-O3", *unit)
    compile_to(their_unit, "unit.cpp", "-O3", *unit, *theirs)
    compile_to(program, "trial.cpp", "-O2", own_unit, their_unit)
    result = json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
    return {"functions_left": left, "cases": result["cases"]}


def main():
    out, folders = pathlib.Path(sys.argv[1]), [pathlib.Path(folder) for folder in sys.argv[2:]]
    result = {**measured.origin(sys.argv[0]), "compiler": compiler(), "xsimd": {}}
    with tempfile.TemporaryDirectory() as scratch:
        for folder in folders:
            result["xsimd"][version(folder)] = {name: measure(folder, name, pathlib.Path(scratch)) for name in FLAGS}
    measured.write(out, result)


if __name__ == "__main__":
    main()
