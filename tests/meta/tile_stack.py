"""The register tiles of the matrix product keep their accumulators in registers.

A tile of M rows that the compiler spills runs at two thirds of its speed, and nothing else shows it. On
AVX-512 the tiles fit: within Tile<...>::run the only vectors that go to the stack are the M results, once
a panel, and none comes back. AVX2 has half the registers and is not checked.

Exit status: 0 in order, 1 not, 77 nothing to check (another processor, no objects, no objdump).
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

TILE = re.compile(
    r"^[0-9a-f]+ <.*Tile<.*Isa\)(?P<isa>\d+).*TensorType\)(?P<type>\d+), (?P<rows>\d+)>::run\(.*>:$")
AMX = re.compile(r"^[0-9a-f]+ <.*AmxMatmul<.*Isa\)(?P<isa>\d+).*TensorType\)(?P<type>\d+), .*>"
                 r"::(?:unpack|combine)\(.*>:$")
CLONE = re.compile(r"\[clone (.*)\]>:$")
SYMBOL = re.compile(r"^[0-9a-f]+ <.*>:$")
VECTOR_ON_STACK = re.compile(r"\t(?P<name>v\w+)\s+(?P<operands>.*\(%r[sb]p.*)")


def traffic(disassembly):
    """(isa, type, rows; 0 for AMX, which copy) -> [vectors stored to the stack, loaded from it]"""
    tiles, current = {}, None
    for line in disassembly.splitlines():
        if SYMBOL.match(line):
            tile = TILE.match(line) or AMX.match(line)
            current = tile and tuple(int(tile.groupdict().get(key, 0)) for key in ("isa", "type", "rows"))
            if current:
                # The compiler may make a copy of a function for arguments that it knows.
                copy = CLONE.search(line)
                current += (copy.group(1) if copy else "",)
                tiles.setdefault(current, [0, 0])
        elif current and re.search(r"%[xyz]mm\d", line):
            access = VECTOR_ON_STACK.search(line)
            # A pointer that the compiler parks in a vector register is none of them.
            if access and access["name"] not in ("vmovd", "vmovq"):
                # The last operand is the destination.
                is_store = re.search(r"\(%r[sb]p[^)]*\)(\{%k\d\})?$", access["operands"].rstrip())
                tiles[current][0 if is_store else 1] += 1
    return tiles


def problems(tiles):
    found = []
    for tile, (stores, loads) in sorted(tiles.items()):
        isa, kind, rows, _ = tile
        if stores > rows or loads > 0:
            found.append(f"tile of {rows} rows, tensor type {kind}, instruction set {isa}: {stores} vectors "
                         f"to the stack (at most {rows}), {loads} back (at most 0)")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--objects-under", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    objects = sorted(file for name in ("kernels_avx512*.o", "kernels_amx*.o")
                     for file in arguments.objects_under.rglob(name))
    if not objects or not shutil.which(arguments.objdump):
        print("no AVX-512 kernels here, or no objdump")
        sys.exit(77)
    checked, found = 0, []
    for file in objects:
        run = subprocess.run([arguments.objdump, "-dC", "--no-show-raw-insn", str(file)],
                             capture_output=True, text=True, check=True)
        tiles = traffic(run.stdout)
        checked += len(tiles)
        if not tiles:
            found.append(f"{file.name}: no tile recognised: have the functions other names now?")
        found += [f"{file.name}: {problem}" for problem in problems(tiles)]
    print("\n".join(found) or f"{checked} tiles, none spilled")
    sys.exit(bool(found))
