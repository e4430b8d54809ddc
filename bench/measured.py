"""What every result file says of where its numbers come from, and the statistics that are quoted."""
import datetime
import json
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench/results"
ORDER = ["qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", "smollm2-135m"]  # of models in plots and tables


def cpu_flags():
    """Names of instruction set extensions as Linux spells them."""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("flags", "Features")):
            return set(line.split(":", 1)[1].split())
    return set()


def cpu_name():
    """As Linux spells it; with family and model, since virtual machines hide the rest."""
    found = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    if "model name" not in found:
        return platform.processor() or platform.machine()
    numbers = [f"{name} {found[key]}" for name, key in (("family", "cpu family"), ("model", "model")) if key in found]
    return found["model name"] + (f" ({', '.join(numbers)})" if numbers else "")


def caches():
    """Sizes of the caches of processor 0, as {"L1d": "48K", ...}."""
    sizes = {}
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = (index / "type").read_text().strip()
        level = "L" + (index / "level").read_text().strip()
        sizes[level + {"Data": "d", "Instruction": "i"}.get(kind, "")] = (index / "size").read_text().strip()
    return sizes


def medians(results):
    """Of several results of one shape the same, with the median in place of each number."""
    first = results[0]
    if isinstance(first, dict):
        return {key: medians([result[key] for result in results]) for key in first}
    if isinstance(first, list):
        return [medians(list(items)) for items in zip(*results)]
    return first if isinstance(first, str) else statistics.median(results)


def git(*words):
    return subprocess.run(["git", "--no-optional-locks", *words], cwd=ROOT, capture_output=True,
                          text=True).stdout.strip()


def build_flags(program):
    """Compiler, build type and flags from the CMakeCache.txt above a program."""
    for folder in pathlib.Path(program).resolve().parents:
        cache = folder / "CMakeCache.txt"
        if not cache.exists():
            continue
        lines = [line for line in cache.read_text().splitlines() if "=" in line and line[0] not in "#/"]
        entries = {name.split(":")[0]: value for name, value in (line.split("=", 1) for line in lines)}
        compiler = entries.get("CMAKE_CXX_COMPILER", "")
        version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
        build_type = entries.get("CMAKE_BUILD_TYPE", "")
        return {"compiler": version, "build_type": build_type,
                "flags": " ".join([entries.get("CMAKE_CXX_FLAGS", ""),
                                   entries.get(f"CMAKE_CXX_FLAGS_{build_type.upper()}", "")]).strip()}
    return {}


def busy():
    """Part of all processors' time that other programs take right now. Above a few percent nothing can be measured."""
    def read():
        times = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]))
        return sum(times), times[3] + times[4]
    total, idle = read()
    time.sleep(1)
    new_total, new_idle = read()
    return round(1 - (new_idle - idle) / max(new_total - total, 1), 3)


def origin(program):
    """The head of a result file."""
    changed = "-dirty" if git("status", "--porcelain", "--", "include", "src", "examples", "bench",
                              ":!bench/results") else ""
    return {"date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
            "commit": git("rev-parse", "--short", "HEAD") + changed,
            "machine": {"cpu": cpu_name(), "cores": os.cpu_count(), "caches": caches(),
                        "busy_before": busy()},
            "build": build_flags(program)}


def quantile(values, part):
    values = sorted(values)
    place = part * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (place - below) * (values[above] - values[below])


def summary(values):
    """As the programs write it: median, p10, p90 and every value."""
    return {"median": statistics.median(values), "p10": quantile(values, 0.1), "p90": quantile(values, 0.9),
            "values": values}


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


def write(path, result):
    """A result file: six digits of every number, and each list of numbers on one line."""
    text = json.dumps(rounded(result), indent=1)
    text = re.sub(r"\[[-+0-9.eE,\s]+\]", lambda list_: re.sub(r"\s+", " ", list_.group()), text)
    text = text.replace("[ ", "[").replace(" ]", "]")
    pathlib.Path(path).write_text(text + "\n")


def load(results, kind):
    """{model: result} of the files of a kind, in the order of the plots."""
    found = {}
    for path in results.glob(f"{kind}-*.json"):
        found[path.stem[len(kind) + 1:]] = json.loads(path.read_text())
    order = {name: i for i, name in enumerate(ORDER)}
    return dict(sorted(found.items(), key=lambda item: (order.get(item[0], 9), item[0])))


def verifications(result):
    """{engine: {M: (time of M rows / time of one: median, p10, p90)}} of a peers file."""
    speeds = {int(test[2:]): by for test, by in result["tokens_per_second"].items() if test.startswith("pp")}
    curves = {}
    for engine in speeds[1]:
        for m in sorted(m for m in speeds if m <= 64):
            pairs = zip(speeds[1][engine]["values"], speeds[m][engine]["values"])
            ratios = sorted(m * one / many for one, many in pairs)
            at = [ratios[round(part * (len(ratios) - 1))] for part in (0.5, 0.1, 0.9)]
            curves.setdefault(engine, {})[m] = at
    return curves


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def answer_speeds(prompt, ways, seconds="seconds"):
    """Tokens/s of whole answers to a prompt of an answers file, turn by turn; of several ways the best one of each turn. With
    "decode_seconds" of the part behind the prompt's reading, as the engine counts it."""
    return [max(speeds) for speeds in zip(*([tokens / time for tokens, time in
                                             zip(prompt["ways"][way]["tokens"], prompt["ways"][way][seconds])]
                                            for way in ways))]


def answer_ratio(prompt, way, bases, seconds="seconds"):
    """A way over the best of `bases`, turn by turn: the median."""
    return statistics.median(a / b for a, b in zip(answer_speeds(prompt, [way], seconds),
                                                   answer_speeds(prompt, bases, seconds)))


def by_group(prompts, value):
    """{group: geometric mean of value(prompt)}, and "mean", that of the groups."""
    groups = {}
    for prompt in prompts:
        groups.setdefault(prompt["group"], []).append(value(prompt))
    means = {group: geometric_mean(values) for group, values in groups.items()}
    return {**means, "mean": geometric_mean(means.values())}
