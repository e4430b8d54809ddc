"""A source must not compile, for one reason that its first line names.

    check.py FILE COMPILER FLAG...

The first line of FILE is `// expect: TEXT`. Compiled as it is, FILE must fail with TEXT in exactly
one error. With FOREDRAFT_CONTROL defined, which undoes the mistake, it must compile: so it cannot
be an error of the test itself that makes it fail.
"""

import pathlib
import re
import subprocess
import sys


def compiled(file, command):
    run = subprocess.run(
        [*command, "-fsyntax-only", str(file)], capture_output=True, text=True, check=False,
    )
    return run.returncode == 0, run.stderr


def problems(file, command):
    first = file.read_text().split("\n", 1)[0]
    expected = re.fullmatch(r"// expect: (.+)", first)
    if not expected:
        return ["the first line is not `// expect: TEXT`"]
    ok, messages = compiled(file, [*command, "-DFOREDRAFT_CONTROL"])
    if not ok:
        return ["the control does not compile:", *messages.splitlines()[:40]]
    ok, messages = compiled(file, command)
    if ok:
        return ["it compiles"]
    errors = re.findall(r"\berror: .*", messages)
    if len(errors) != 1 or expected[1] not in errors[0]:
        return [f"expected one error with `{expected[1]}`, found", *errors[:20]]
    return []


if __name__ == "__main__":
    found = problems(pathlib.Path(sys.argv[1]), sys.argv[2:])
    print("\n".join(found) or "refused as expected")
    sys.exit(bool(found))
