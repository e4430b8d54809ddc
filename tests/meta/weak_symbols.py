"""No shared function of a kernel object holds wider instructions than every machine can run.

An inline function or template that two translation units compile is a weak symbol, and the linker keeps
one copy. If a unit compiled for AVX-512 brings its copy of std::vector's members, that copy may be the
one that remains, and the program stops with an illegal instruction on an older processor. So a weak
symbol may hold wide instructions only where its name belongs to units of one instruction set: it carries
the tag InstructionSet<isa, build> of backend/cpu/isa.hpp, or lies in the inline namespace of an
architecture. Everything else must be baseline x86-64, and so must what runs before anybody has asked
which instructions the machine has: the functions that hand out a unit's kernels, and initialisation.

Exit status: 0 in order, 1 not, 77 nothing to check (another processor, no objects, no objdump).
"""

import argparse
import pathlib
import platform
import re
import shutil
import subprocess
import sys

BASELINE, AVX, AVX512 = range(3)
WIDTH = ("baseline", "AVX", "AVX-512")
# What the second argument of InstructionSet, the flags of the unit, lets a function hold: the values of Isa.
BUILDS = (BASELINE, AVX, AVX, AVX512, AVX512)
TAG = re.compile(r"InstructionSet<\([\w:]*Isa\)\d+, \([\w:]*Isa\)(\d+)>")
NAMESPACES = {"avx2": AVX, "avxvnni": AVX, "avx512": AVX512, "avx512vnni": AVX512, "amx": AVX512}
# Legacy-encoded instructions that baseline x86-64 lacks.
LATER = {"popcnt", "lzcnt", "tzcnt", "movbe", "crc32", "pshufb", "phaddd", "ptest", "roundss", "roundsd",
         "pmulld", "pminsd", "pmaxsd", "dpps"}

SYMBOL = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\t((?:[0-9a-f]{2} )+)\s*\t?(\S*)")
FLAGS = re.compile(r"^[0-9a-f]+ (.{7}) (\S+)\t[0-9a-f]+ (?:\.hidden |\.protected )?(\S+)$")


def allowed(name):
    """Width that a weak function may have, by its demangled name."""
    builds = [BUILDS[int(build)] for build in TAG.findall(name)]
    spaces = [width for word, width in NAMESPACES.items()
              if re.search(rf"\bforedraft::(?:\w+::)*{word}::", name)]
    return max(builds + spaces, default=BASELINE)


def width_of(encoding, mnemonic):
    """In 64-bit code a leading 62 is EVEX, c4 and c5 are VEX; 67 and segment prefixes may precede."""
    octets = encoding.split()
    while octets and octets[0] in ("67", "2e", "36", "3e", "26", "64", "65"):
        octets.pop(0)
    if octets and octets[0] == "62":
        return AVX512
    if octets and octets[0] in ("c4", "c5"):
        return AVX
    return AVX if mnemonic in LATER else BASELINE


def shared_functions(objdump, file):
    """Mangled names of functions that other units share, call on any machine, or that run before main."""
    output = subprocess.run([objdump, "-t", file], check=True, capture_output=True, text=True).stdout
    found = set()
    for line in output.splitlines():
        match = FLAGS.match(line)
        if not match or not match[2].startswith(".text"):
            continue
        weak = "w" in match[1][:2] or match[1].startswith("u")
        strong = match[1].startswith("g") and "F" in match[1]
        if weak or strong or match[2] == ".text.startup":
            found.add(match[3])
    return found


def demangle(names):
    """c++filt comes with objdump."""
    output = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return dict(zip(names, output.stdout.splitlines()))


def check_object(objdump, file):
    """Demangled name -> what it holds, for functions that hold what they must not."""
    shared = demangle(sorted(shared_functions(objdump, file)))
    found = {}
    if not shared:
        return found
    output = subprocess.run([objdump, "-d", "--wide", file], check=True, capture_output=True, text=True)
    symbol = None
    for line in output.stdout.splitlines():
        head = SYMBOL.match(line)
        if head:
            symbol = head[1] if head[1] in shared else None
            continue
        if symbol is None or shared[symbol] in found:
            continue
        match = INSTRUCTION.match(line)
        if match:
            width = width_of(match[1], match[2])
            if width > allowed(shared[symbol]):
                found[shared[symbol]] = f"{WIDTH[width]} ({line.split(chr(9))[-1].strip()})"
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--objects-under", type=pathlib.Path, required=True,
                        help="build folder; kernels of targets foredraft_compiled* are checked")
    options = parser.parse_args()
    # All of the library but load.cpp, which has the flags of portable. g++ writes bsf there in the form that newer
    # processors read as tzcnt and older ones as bsf, with one result where the operand is not zero.
    objects = [file for file in sorted(options.objects_under.rglob("kernels_*.o"))
               if any(part.startswith("foredraft_compiled") for part in file.parts)]
    if platform.machine() not in ("x86_64", "AMD64") or not objects or not shutil.which(options.objdump):
        print("nothing to check")
        return 77
    bad = 0
    for file in objects:
        found = check_object(options.objdump, file)
        for name, what in found.items():
            print(f"{file.name}: {name} holds {what}")
        bad += len(found)
    print(f"{len(objects)} objects, {bad} shared symbols too wide")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
