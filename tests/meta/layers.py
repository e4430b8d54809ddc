"""The include graph respects the layers of docs/design/layers.md and has no cycle.

The table of that page is the rule: a header of a layer includes headers of its own layer and of those
in the column "may include", and third-party headers of the libraries in its last column. A second table
holds some headers inside a layer to finer rules: what they do not include, they do not name either.
"""

import pathlib
import re
import sys

from headers import without_comments

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
# how the headers of each library are spelled
LIBRARIES = {"Eigen": "Eigen/", "xsimd": "xsimd/", "PCRE2": "pcre2", "nlohmann/json": "nlohmann/",
             "CUDA": "cuda", "cuBLAS": "cublas"}
# The target foredraft::loop must stay usable by an engine that brings its own model: what lies at the
# top, and drafters. These are not part of it, as CMakeLists.txt says with the same names.
WITH_MODEL = re.compile(r"models[.]hpp|drafter/(draft_model|model_[^/]*)[.]hpp")
MODEL_LAYERS = ("backend", "model", "io")


def read_table(page):
    """layer -> (set of layers and top headers it may include, set of libraries)"""
    layers = {}
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        name = re.fullmatch(r"`([a-z]+)`", cells[0])
        if not line.startswith("|") or not name or len(cells) != 4:
            continue
        layers[name[1]] = (set(re.findall(r"`([a-z.]+)`", cells[2])),
                           {library for library in LIBRARIES if library in cells[3]})
    return layers


def read_finer_rules(page):
    """(headers, exceptions, what they do not include), all of them beginnings of paths"""
    rules = []
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("| `") or len(cells) != 3:
            continue
        headers, _, exceptions = cells[0].partition("but not")
        paths = [tuple(re.findall(r"`([a-z_./]+)`", text)) for text in (headers, exceptions, cells[1])]
        if all("/" in path for path in paths[0] + paths[2]):
            rules.append(paths)
    return rules


def names_of(forbidden):
    """What is named of a folder or a header: cpu::, using namespace cpu, Cpu and CpuRows; Options of options.hpp."""
    name = forbidden.rstrip("/").split("/")[-1]
    if name.endswith(".hpp"):
        return rf"\b{''.join(word.capitalize() for word in name.removesuffix('.hpp').split('_'))}\b"
    return rf"\b({name}\s*::|namespace\s+{name}\b|{name.capitalize()}(?![a-z])\w*)"


def layer_of(path):
    """core/error.hpp -> core; generate.hpp -> None; version.hpp belongs to core."""
    if path == "version.hpp":
        return "core"
    return path.split("/")[0] if "/" in path else None


def find_cycle(graph):
    state, stack = {}, []

    def visit(node):
        state[node] = "open"
        stack.append(node)
        for following in graph.get(node, ()):
            if state.get(following) == "open":
                return stack[stack.index(following):] + [following]
            if following not in state:
                cycle = visit(following)
                if cycle:
                    return cycle
        stack.pop()
        state[node] = "done"
        return None

    for node in graph:
        if node not in state:
            cycle = visit(node)
            if cycle:
                return cycle
    return None


def reachable(graph, start):
    seen, queue = set(), [start]
    while queue:
        node = queue.pop()
        if node not in seen:
            seen.add(node)
            queue.extend(graph.get(node, ()))
    return seen


def problems(root):
    include = root / "include" / "foredraft"
    layers = read_table(root / "docs" / "design" / "layers.md")
    finer_rules = read_finer_rules(root / "docs" / "design" / "layers.md")
    graph = {}
    found = []
    if not layers or not finer_rules:
        return ["docs/design/layers.md lacks a table of layers, or of finer rules"]
    for file in sorted(include.rglob("*.hpp")) + sorted(include.rglob("*.cuh")):
        path = file.relative_to(include).as_posix()
        layer = layer_of(path)
        graph[path] = []
        if layer is not None and layer not in layers:
            found.append(f"{path}: layer {layer} is not in the table")
            continue
        text = file.read_text()
        code = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', without_comments(text))  # messages may name a backend
        for headers, exceptions, forbidden in finer_rules:
            if not path.startswith(headers) or path.startswith(exceptions):
                continue
            for name in map(names_of, forbidden):
                named = re.search(name, code)
                if named:
                    found.append(f"{path}: does not name {named[0]}, by a finer rule")
        for bracket, target in INCLUDE.findall(text):
            if bracket == '"':
                found.append(f'{path}: write <foredraft/...> instead of "{target}"')
                continue
            if not target.startswith("foredraft/"):
                library = next((l for l, start in LIBRARIES.items() if target.startswith(start)), None)
                if library and layer is not None and library not in layers[layer][1]:
                    found.append(f"{path}: {layer} does not use {library} (<{target}>)")
                if library in ("CUDA", "cuBLAS") and path.endswith(".hpp"):
                    found.append(f"{path}: a host header includes <{target}>")
                continue
            target = target.removeprefix("foredraft/")
            if not (include / target).exists():
                found.append(f"{path}: <foredraft/{target}> does not exist")
                continue
            graph[path].append(target)
            for headers, exceptions, forbidden in finer_rules:
                if (path.startswith(headers) and not path.startswith(exceptions)
                        and target.startswith(forbidden)):
                    found.append(f"{path}: does not include {target}, by a finer rule")
            if path.endswith(".hpp") and target.endswith(".cuh"):
                found.append(f"{path}: a host header includes {target}")
            other = layer_of(target)
            if layer is None:
                continue  # the headers at the top put everything together
            if other is None:
                if target in layers[layer][0]:
                    continue
                found.append(f"{path}: {layer} includes {target}, which lies above it")
            elif other != layer and other not in layers[layer][0]:
                found.append(f"{path}: {layer} may not include {other} ({target})")
    for headers, exceptions, forbidden in finer_rules:  # of single headers indirectly, too
        for start in (path for path in graph if path.startswith(headers) and not path.startswith(exceptions)):
            for path in sorted(reachable(graph, start).intersection(forbidden)):
                if path not in graph[start]:
                    found.append(f"{start}: reaches {path}, against a finer rule")
    cycle = find_cycle(graph)
    if cycle:
        found.append("cycle: " + " -> ".join(cycle))
    for start in sorted(path for path in graph if layer_of(path) in (None, "drafter", "testing")):
        for path in () if WITH_MODEL.fullmatch(start) else sorted(reachable(graph, start)):
            if layer_of(path) in MODEL_LAYERS:
                found.append(f"{start} reaches {path}: the loop must not need a model")
    return found


if __name__ == "__main__":
    lines = problems(pathlib.Path(sys.argv[1]))
    print("\n".join(lines) or "layers respected")
    sys.exit(bool(lines))
