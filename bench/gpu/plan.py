"""What keeps a GPU's memory busy while weights are multiplied, from the compiled kernels; no GPU is needed:

    python3 bench/gpu/plan.py bench/results/gpu-plan.json

Compiles the kernels for a Hopper (a minute or two), reads how many registers the compiler gave to each, and works out how
many blocks a multiprocessor holds and how many bytes of weights they have on their way at once. `bench/tables.py` puts the
table into docs/design/cuda-plan.md. It says what the plan is, never how fast anything runs.
"""
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Registers, shared memory and warps of a multiprocessor: CUDA C++ Programming Guide, compute capability 9.0. Multiprocessors
# and the memory's speed: NVIDIA's data sheet of the H200. The latency is an assumption.
CHIP = {"name": "H200", "multiprocessors": 132, "registers": 65536, "shared_bytes": 228 << 10, "warps": 64, "blocks": 32,
        "reserved_shared_bytes": 1 << 10, "bytes_per_second": 4.8e12, "latency_seconds": 700e-9}
WARP = 32
REGISTERS_ARE_GIVEN_BY = 256  # to a warp


def lines_of(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return (done.stdout + done.stderr).splitlines()


def includes():
    return ["-Iinclude", "-isystem", "/usr/include/eigen3"]


def constants(folder):
    program = folder / "plan"
    lines_of("g++", "-std=c++20", *includes(), "bench/gpu/plan.cpp", "-o", program)
    return json.loads("\n".join(lines_of(program)))


def registers(folder):
    """By kernel."""
    said = lines_of("nvcc", "-std=c++20", "-O3", "-arch=sm_90a", "-Xptxas", "-v", *includes(), "-c",
                    "tests/cuda/kernels.cu", "-o", folder / "kernels.o")
    names = re.findall(r"Compiling entry function '(\S+)'", "\n".join(said))
    used = [int(n) for n in re.findall(r"Used (\d+) registers", "\n".join(said))]
    assert len(names) == len(used) > 0
    plain = lines_of("c++filt", *names)
    found = {}
    for name, n in zip(plain, used):
        kernel = re.search(r"run_kernel<(.*)>\(", name)
        if kernel:
            found[kernel[1].replace(" ", "")] = n
    return found


def blocks(kernel):
    """That a multiprocessor holds, by whichever runs out first."""
    warps = kernel["threads"] // WARP
    per_warp = -(-kernel["registers"] * WARP // REGISTERS_ARE_GIVEN_BY) * REGISTERS_ARE_GIVEN_BY
    limits = {"registers": CHIP["registers"] // (per_warp * warps),
              "shared memory": CHIP["shared_bytes"] // (kernel["shared_bytes"] + CHIP["reserved_shared_bytes"]),
              "warps": CHIP["warps"] // warps}
    limit = min(limits, key=limits.get)
    return min(limits[limit], CHIP["blocks"]), limit


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        kernels = constants(pathlib.Path(folder))
        used = registers(pathlib.Path(folder))
    for kernel in kernels:
        kernel["registers"] = used[kernel.pop("kernel").replace(" ", "")]
        kernel["blocks"], kernel["limit"] = blocks(kernel)
    needed = CHIP["bytes_per_second"] * CHIP["latency_seconds"] / CHIP["multiprocessors"]
    version = [line for line in lines_of("nvcc", "--version") if "release" in line][0].split("release ")[1]
    result = {"commit": lines_of("git", "describe", "--always", "--dirty")[0], "date": datetime.date.today().isoformat(),
              "compiler": f"nvcc {version}", "chip": CHIP, "bytes_needed": round(needed), "products": kernels}
    pathlib.Path(sys.argv[1]).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
