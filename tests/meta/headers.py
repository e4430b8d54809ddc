"""Every header has a test, a bounded length and clean contents."""

import pathlib
import re
import sys

MAX_LINES = 600
MAX_EXAMPLE_LINES = 80
# They hold declarations alone, or gather what is tested elsewhere.
WITHOUT_TEST = {"foredraft.hpp", "version.hpp", "fwd.hpp", "simd.hpp"}
FORBIDDEN = {
    r"^\s*using namespace\b": "using namespace in a header",
    r"\b(?:std::)?abort\s*\(": "a library does not end the program",
    r"(?<![_\w])assert\s*\(": "throw foredraft::Error instead of assert",
    r"\bstd::(?:cout|cerr|clog)\b": "a library does not print",
    r"(?<![\w])(?:std::)?f?printf\s*\(": "a library does not print",
    r"(?:^|[;{})]\s)\s*[\w*][\w.>()\[\]*-]*\s=\s\{\s*\.\w": "name the type: nvcc drops the members' names",
    r"^\s*#\s*define\s+(?!FOREDRAFT_|PCRE2_CODE_UNIT_WIDTH\b)\w+": "macros are called FOREDRAFT_...",
}


def without_comments(text):
    """The code alone; line numbers stay right."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL)
    return re.sub(r"//[^\n]*", "", text)


def problems(root):
    found = []
    include = root / "include" / "foredraft"
    for file in sorted(include.rglob("*.hpp")) + sorted(include.rglob("*.cuh")):
        path = file.relative_to(include)
        text = file.read_text()
        lines = text.count("\n")
        if lines > MAX_LINES:
            found.append(f"{path}: {lines} lines; at most {MAX_LINES}")
        if "#pragma once" not in text:
            found.append(f"{path}: no #pragma once")
        test = root / "tests" / path.parent / (path.stem + ".test.cpp")
        if file.suffix == ".hpp" and path.name not in WITHOUT_TEST and not test.exists():
            found.append(f"{path}: no {test.relative_to(root)}")
        code = without_comments(text)
        for pattern, reason in FORBIDDEN.items():
            for match in re.finditer(pattern, code, re.MULTILINE):
                line = code.count("\n", 0, match.end()) + 1
                found.append(f"{path}:{line}: {reason}")
    for file in sorted((root / "examples").glob("[0-9]*.cpp")):
        lines = file.read_text().count("\n")
        if lines > MAX_EXAMPLE_LINES:
            found.append(f"examples/{file.name}: {lines} lines; at most {MAX_EXAMPLE_LINES}")
    return found


if __name__ == "__main__":
    lines = problems(pathlib.Path(sys.argv[1]))
    print("\n".join(lines) or "headers in order")
    sys.exit(bool(lines))
