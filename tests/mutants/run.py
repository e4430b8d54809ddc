#!/usr/bin/env python3
"""Mutation test: puts known mistakes into the headers, one at a time, and runs the tests that have to
notice. docs/design/mutants.md says what for, and has the last result.

A mutant is an entry of a .toml file beside this script, whose name is its area:

  [[mutant]]
  header = "core/utf8.hpp"       # below include/foredraft
  from = 'back <= longest_tail'  # stands there exactly once; any white space matches any other
  to = 'back < longest_tail'
  breaks = "the lead byte of a character of four is shown before the fourth"
  tests = ["text_stream"]        # optional: what runs after the header's own test, core.utf8
  survives = "..."               # optional: why no test can see it

The changed header lies in a folder of its own, which comes first where the compiler looks for
<foredraft/...>. So a mutant costs a test program or two, compiled and linked as the build does it.
Exit status: 0 if every mutant was killed, or survives and says why.
"""

import argparse
import collections
import concurrent.futures
import datetime
import fnmatch
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HEADERS = ROOT / "include" / "foredraft"
BUILD = ROOT / "build" / "release"
PASSED = (0, 4)  # 4: passed, but a model was missing
# A mistake may loop for ever, or ask for memory without end.
LEAST_SECONDS, TIMES_SLOWER = 20, 5
LIMITS = ["prlimit", "--data=8589934592", "--core=0"]
BEGIN, END = "<!-- from here written by tests/mutants/run.py -->", "<!-- to here -->"
NEEDED, KNOWN = {"header", "from", "to", "breaks"}, {"tests", "survives"}


class ListError(Exception):
    """The list is wrong, or a test is: nothing has been learned about the mutant."""


def name(mutant):
    return f"{mutant['header']}: {mutant['breaks']}"


def read_list():
    mutants = {}
    for file in sorted(HERE.glob("*.toml")):
        for mutant in tomllib.loads(file.read_text())["mutant"]:
            if not NEEDED <= set(mutant) <= NEEDED | KNOWN or name(mutant) in mutants:
                raise SystemExit(f"{file.name}: an unknown field, a missing one, or twice: {mutant}")
            mutants[name(mutant)] = mutant | {"area": file.stem}
    return mutants


def mutated(mutant):
    """The header with the mistake, and how often `from` stands in it."""
    spelled = r"\s+".join(map(re.escape, mutant["from"].split()))
    return re.subn(spelled, lambda _: mutant["to"], (HEADERS / mutant["header"]).read_text())


def call(command):
    done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        raise ListError((errors or [f"{command[0]} fails"])[0])
    return done.stdout


def passes(program, seconds):
    try:
        done = subprocess.run(LIMITS + [program], cwd=BUILD / "tests", timeout=seconds,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode in PASSED


class Tests:
    """Makes and runs test programs, with a folder of headers before all others."""

    def __init__(self):
        file = BUILD / "compile_commands.json"
        if not file.exists():
            raise SystemExit("build first: cmake --preset release && cmake --build --preset release")
        self.compiles = {c["file"]: c["command"] for c in json.loads(file.read_text())}
        self.locks = collections.defaultdict(threading.Lock)
        self.limits = {}

    def make(self, test, overlay):
        source = str(ROOT / "tests" / (test.replace(".", "/") + ".test.cpp"))
        if source not in self.compiles:
            raise ListError(f"no test {test}")
        made = str(overlay / test)
        command = shlex.split(self.compiles[source])
        command[command.index("-o") + 1] = made + ".o"
        first = next(i for i, part in enumerate(command) if part.startswith("-"))
        call([*command[:first], "-w", f"-I{overlay}", *command[first:]])
        # ": && c++ ... && what CMake does behind it"
        commands = call(["ninja", "-t", "commands", f"test.{test}"]).splitlines()
        command = shlex.split(commands[-1].split(" && ")[1])
        command[command.index("-o") + 1] = made
        call([made + ".o" if part.endswith(".test.cpp.o") else part for part in command])
        return made

    def limit(self, test):
        """Seconds that a test may take. It has to pass without a mistake."""
        with self.locks[test], tempfile.TemporaryDirectory() as folder:
            if test not in self.limits:
                program, begin = self.make(test, pathlib.Path(folder)), time.monotonic()
                if not passes(program, 600):
                    raise ListError(f"test.{test} fails without a mistake")
                self.limits[test] = max(LEAST_SECONDS, TIMES_SLOWER * (time.monotonic() - begin))
            return self.limits[test]

    def outcome(self, mutant):
        """What becomes of a mutant, and the test that killed it or what is wrong with the list."""
        own = mutant["header"].removesuffix(".hpp").replace("/", ".")
        try:
            with tempfile.TemporaryDirectory() as folder:
                text, times = mutated(mutant)
                if times != 1:
                    raise ListError(f"`from` stands in the header {times} times")
                header = pathlib.Path(folder, "foredraft", mutant["header"])
                header.parent.mkdir(parents=True)
                header.write_text(text)
                for test in [own, *mutant.get("tests", [])]:
                    seconds = self.limit(test)
                    if not passes(self.make(test, pathlib.Path(folder)), seconds):
                        return "stale" if "survives" in mutant else "killed", f"test.{test}"
        except (ListError, OSError) as error:
            return "error", str(error)
        return "explained" if "survives" in mutant else "survived", ""


def table(results):
    lines = ["| area | mutants | killed | survive, explained | survive |", "|---|---|---|---|---|"]
    for area in [*sorted({r["area"] for r in results}), "all"]:
        found = collections.Counter(r["outcome"] for r in results if area in (r["area"], "all"))
        columns = (found.total(), found["killed"] + found["stale"], found["explained"],
                   found["survived"])
        lines.append(f"| {area} | " + " | ".join(map(str, columns)) + " |")
    lines += ["", f"Run up to {max(r['date'] for r in results)}. The survivors:", ""]
    lines += [textwrap.fill(f"- `{r['header']}`: {r['breaks']}. {r['survives'] or 'Not explained.'}",
                            118, subsequent_indent="  ")
              for r in results if r["outcome"] in ("survived", "explained")]
    return "\n".join(lines)


def in_order(found, mutants):
    """Results of the mutants that the list still has."""
    return [found[n] for n in mutants if n in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="PATTERN",
                        help="an area, part of `header: breaks`, or a pattern; may be repeated")
    parser.add_argument("--list", action="store_true",
                        help="run nothing: show the mutants, and which no longer fit their header")
    parser.add_argument("-j", type=int, default=1, metavar="N", help="mutants at once (default: 1)")
    parser.add_argument("--results", type=pathlib.Path, metavar="FILE",
                        help="JSON: add what is found to what FILE has of other mutants")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE",
                        help="write the table of these results into a page")
    args = parser.parse_args()

    mutants = read_list()
    chosen = [m for m in mutants.values() if not args.only or any(
        p == m["area"] or p in name(m) or fnmatch.fnmatch(name(m), p) for p in args.only)]
    if args.list:
        for mutant in chosen:
            fits = mutated(mutant)[1] == 1
            print(f"{mutant['area']:10} {name(mutant)}" + ("" if fits else "  [does not fit]"))
        return 0

    found = {}
    if args.results and args.results.exists():
        found = {name(r): r for r in json.loads(args.results.read_text())}
    made = {"commit": call(["git", "describe", "--always", "--dirty"]).strip(),
            "date": datetime.date.today().isoformat()}
    tests, count = Tests(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        running = {pool.submit(tests.outcome, m): m for m in chosen}
        for done in concurrent.futures.as_completed(running):
            mutant, (outcome, by) = running[done], done.result()
            count[outcome] += 1
            print(f"{outcome:9}  {name(mutant)}" + (f"  [{by}]" if by else ""), flush=True)
            kept = {key: mutant.get(key, "") for key in ("area", "header", "breaks", "survives")}
            found[name(mutant)] = kept | {"outcome": outcome, "by": by} | made
            if args.results:
                args.results.write_text(json.dumps(in_order(found, mutants), indent=1) + "\n")
    if args.page:
        before, _, rest = args.page.read_text().partition(BEGIN)
        results = table(in_order(found, mutants))
        args.page.write_text(f"{before}{BEGIN}\n{results}\n{END}{rest.partition(END)[2]}")
    print(", ".join(f"{n} {outcome}" for outcome, n in sorted(count.items())))
    return any(count[outcome] for outcome in ("survived", "stale", "error"))


if __name__ == "__main__":
    sys.exit(main())
