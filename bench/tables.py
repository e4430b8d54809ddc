"""Put the result files into the documentation: python3 bench/tables.py [FOLDER | --check]

Rewrites what stands between `<!-- begin NAME MACHINE -->` and `<!-- end -->` in the pages under docs from the
files in bench/results/MACHINE (without MACHINE: from those of all machines), for the names below. A table without result
files is left as it is. With --check nothing is written, and a page that would change is an error. With FOLDER, all
tables of the files in it are printed instead.
"""
import json
import pathlib
import re
import statistics
import sys
from typing import Callable, NamedTuple

import measured

PAGES = measured.ROOT / "docs"
# Machines in the order of the summary, and what they are called there.
MACHINES = {"zen4": "Zen 4", "granite-rapids": "Granite Rapids", "zen5": "Zen 5"}


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def source(results, pattern, files):
    """Where numbers come from, as a sentence. The files say commit, date and compiler."""
    first = next(iter(files.values()))
    engine = first.get("engines", {}).get("foredraft", first)
    machine = first["machine"]
    busy = machine.get("busy_before", 0)
    disturbed = f" {100 * busy:.0f} % of the machine was busy with something else." if busy > 0.05 else ""
    kernels = f", {engine['isa']}" if "isa" in engine else ""
    folder = results.relative_to(measured.ROOT) if results.is_relative_to(measured.ROOT) else results
    return (f"{machine['cpu']}, {machine['cores']} cores, threads: {engine['threads']}{kernels}. "
            f"From `{folder}/{pattern}`.{disturbed}")


def passes(results):
    """Tokens/s of forward passes and T(M)/T(1), ours and theirs, for every model."""
    files = measured.load(results, "peers")
    picture = f"![Time of M rows over the time of one, ours and theirs](../images/{results.name}/rows.svg)"
    parts = [source(results, "peers-*.json", files), picture] if files else []
    for model, result in files.items():
        speeds = result["tokens_per_second"]
        head = [model] + [f"M={t[2:]}" if t.startswith("pp") else "plain decoding" for t in speeds]
        engines = list(next(iter(speeds.values())))
        rows = [[e] + [number(speeds[t][e]["median"]) for t in speeds] for e in engines]
        curves = measured.verifications(result)
        for engine in engines:
            rows.append([f"T(M)/T(1), {engine}"] + [f"{curves[engine][int(t[2:])][0]:.2f}" if t.startswith("pp")
                                                    and int(t[2:]) in curves[engine] else "" for t in speeds])
        parts.append(table(head, rows))
    return "\n\n".join(parts)


def bench(results):
    """Tokens/s that `foredraft bench` prints, with their deviation."""
    files = measured.load(results, "bench")
    if not files:
        return ""
    tests = [one["test"] for one in next(iter(files.values()))["results"]]
    rows = [[model, *(f"{number(one['tokens_per_second'])} ± {number(one['stddev'])}" for one in result["results"])]
            for model, result in files.items()]
    return source(results, "bench-*.json", files) + "\n\n" + table(["tokens/s", *(f"`{test}`" for test in tests)], rows)


class Row(NamedTuple):
    """A ratio that every model has, and what it is held to."""
    name: str
    get: Callable  # value of a model's record: its result files by kind; KeyError where a file lacks it
    limits: tuple = ()  # for each model in the order of measured.ORDER; None: no goal
    at_most: bool = False
    amx: float = None  # instead of limits[0] where tiles multiply
    otherwise: Callable = None  # another way to reach the goal: whether a record does


def median(*keys):
    """Getter of a median deep in a record."""
    def get(record):
        for key in keys:
            record = record[key]
        return record["median"]
    return get


def rows_over_one(position, limits):
    return [Row(f"K3: T({m})/T(1) at {position} positions", median("goals", "K3", position, m), (limit,), True, amx)
            for m, (limit, amx) in limits.items()]


def peer_modes(result, peer="llama.cpp"):
    return [way for way in result["ways"] if way.startswith(peer)]


def as_long(prompts, modes):
    """Those whose answer has as many tokens in every mode of a peer as ours has: the prompt is read once for each."""
    return [prompt for prompt in prompts if modes
            and len({count for way in ("plain", *modes) for count in prompt["ways"][way]["tokens"]}) == 1]


def answer_times(group, way):
    """Getter of the time of a group's answers over that of plain decoding."""
    def get(record):
        file = record["turns"] if "turns" in record else record["answers"]  # the more turns, the less noise
        prompts, base = file["prompts"], file["ways"][way]
        return 1 / measured.by_group(prompts, lambda prompt: measured.answer_ratio(prompt, way, [base]))[group]
    return get


def answers_of_peer(peer, way):
    """Getter of the speed of whole answers over a peer's best mode, the mean over the groups."""
    def get(record):
        modes = peer_modes(record["answers"], peer)
        prompts = as_long(record["answers"]["prompts"], modes)
        if not prompts:
            raise KeyError(peer)
        return measured.by_group(prompts, lambda prompt: measured.answer_ratio(prompt, way, modes))["mean"]
    return get


OURS_AUTO = ("auto", "auto + draft", "auto + other draft")
SAMPLED = ("temperature 0.8, top-k 40, top-p 0.95", "temperature 0.8, top-p 0.95", "temperature 1",
           "rejection, temperature 1")
DECODING_OF_STREAM = median("peers", "goals", "decoding_of_stream_read")
ROWS = [
    Row("K1: weights/s of one row / stream read beside it", median("goals", "K1", "of_stream_read_beside"),
        (.90, .82, .75)),
    Row("K2: plain decoding / llama.cpp", median("peers", "goals", "K2", "llama.cpp"), (1.30, 1.9, 2.0),
        otherwise=lambda record: DECODING_OF_STREAM(record) >= .92),
    Row("K2: plain decoding / ik_llama.cpp", median("peers", "goals", "K2", "ik_llama.cpp"), (1.05,) * 3),
    *rows_over_one("256", {"4": (1.10, 1.05), "8": (1.5, 1.15), "16": (3.0, 1.3)}),
    Row("K4: prompt of 512 / llama.cpp", median("peers", "goals", "K4", "llama.cpp"), (2.5,) * 3),
    Row("K4: prompt of 512 / ik_llama.cpp", median("peers", "goals", "K4", "ik_llama.cpp"), (1.2,) * 3),
    *(Row(f"K5: use of the dot product, 8 rows from L2, {kind}", median("goals", "K5", kind), (.73,) * 3)
      for kind in ("Q4_K", "Q6_K", "Q4_1", "Q5_0", "Q8_0")),
    Row("K6: host work of a round, greedy, us", median("goals", "K6", "greedy", "microseconds_a_round"), (20,) * 3, True),
    Row("K6: host work of a round, all drafters, us",
        median("goals", "K6", "greedy, all drafters", "microseconds_a_round"), (20,) * 3, True),
    *(Row(f"K6: a row read, {kind}, us", median("goals", "K6", kind, "microseconds_a_row"), (50,) * 3, True)
      for kind in SAMPLED),
    Row("K8: attention at 4096, one row / stream read", median("goals", "K8", "M1_of_stream_read"), (.75,) * 3),
    Row("K8: attention at 4096, 8 rows / multiply-add peak", median("goals", "K8", "M8_of_fma_peak"), (.65,) * 3),
    Row("K8: time with a q8_0 cache / f16, one row", median("goals", "K8", "q8_0_time_of_f16", "1"), (.80,) * 3, True),
    *(Row(f"K9: time of translations, {way} / plain", answer_times("translation", way), (1.02,), True) for way in OURS_AUTO),
    *(Row(f"K10: whole answers, {way} / best mode of llama.cpp", answers_of_peer("llama.cpp", way), (2.5,))
      for way in OURS_AUTO)]
# Beside the goals, on the page of a machine.
MORE_ROWS = [
    Row("K1 against the best stream read of the run", lambda record: record["goals"]["K1"]["of_best_stream_read"]),
    Row("weights read in plain decoding / stream read", DECODING_OF_STREAM),
    *rows_over_one("4096", {m: (None, None) for m in ("4", "8", "16")}),
    Row("a pass of 8 rows / llama.cpp", median("peers", "goals", "M8", "llama.cpp")),
    Row("a pass of 8 rows / ik_llama.cpp", median("peers", "goals", "M8", "ik_llama.cpp")),
    Row("stream read, all threads, GB/s", median("goals", "stream_read_GB_per_s", "all_threads")),
    Row("int8 dot product, one thread, GMAC/s", median("goals", "dot_int8_GMAC_per_s_1_thread"))]


def records(results):
    """{model: {kind: result}} of a machine, in the order of the plots."""
    found = {}
    for kind in ("goals", "peers", "answers", "turns"):
        for model, file in measured.load(results, kind).items():
            found.setdefault(model, {})[kind] = file
    return found


def cell(row, model, record):
    """The value, bold where it misses its goal; nothing where it was not measured."""
    try:
        text = f"{row.get(record):.2f}"
    except KeyError:
        return ""
    limit = dict(zip(measured.ORDER, row.limits)).get(model)
    if limit is not None and row.amx and record["goals"]["isa"] == "amx":
        limit = row.amx
    if limit is None or (float(text) <= limit if row.at_most else float(text) >= limit):
        return text
    return text if row.otherwise and row.otherwise(record) else f"**{text}**"


def limit_of(row):
    limits = [f"{limit:g}" for limit in dict.fromkeys(row.limits) if limit is not None]
    sign = "<= " if row.at_most else ">= "
    return sign + ", ".join(limits) + (f" ({row.amx:g} with AMX)" if row.amx else "") if limits else ""


def goals(results):
    """The goals beside what was measured on one machine."""
    models = records(results)
    if not any(set(kinds) - {"answers"} for kinds in models.values()):
        return ""
    rows = [[row.name, limit_of(row), *(cell(row, model, record) for model, record in models.items())]
            for row in ROWS + MORE_ROWS]
    picture = ("![Forward passes between the speed of memory and that of the dot product]"
               f"(../images/{results.name}/roofline.svg)")
    first = next(iter(models.values()))
    where = source(results, "{goals,peers}-*.json", {"first": next(iter(first.values()))})
    return "\n\n".join([where, picture, table(["", "goal", *models],
                                              [cells for cells in rows if any(cells[2:])])])


def summary(results):
    """The goals on all machines: three models in a cell."""
    by_machine = {name: records(results / folder) for folder, name in MACHINES.items()}
    rows = []
    for row in ROWS:
        cells = [[cell(row, model, record) for model, record in models.items() if model in measured.ORDER]
                 for models in by_machine.values()]
        if any(map(any, cells)):
            rows.append([row.name, limit_of(row), *(" · ".join(values) if any(values) else "" for values in cells)])
    return table(["", "goal", *by_machine], rows)


def agreement(results):
    """How far logits are from llama.cpp's."""
    models = json.loads((results / "agreement.json").read_text())["models"]
    return table(["model", "difference", "same best token"],
                 [[model, f"{one['mean_difference']:.3f}", f"{one['same_best']} of {one['positions']}"]
                  for model, one in models.items()])


def cache_formats(results):
    """Memory, perplexity and acceptance with keys and values in several formats."""
    files = {path.stem.removeprefix("cache-formats-"): json.loads(path.read_text())
             for path in sorted(results.glob("cache-formats-*.json"))}
    if not files:
        return ""
    quality = {model: file["formats"] for model, file in files.items() if "formats" in file}
    accepting = {f"{model} accepts of {file['draft']}": file["acceptance"]["formats"]
                 for model, file in files.items() if "acceptance" in file}
    pairs = [(row["k"], row["v"]) for row in next(iter((quality or accepting).values()))]
    rows = []
    for i, (k, v) in enumerate(pairs):
        cells = [k, v]
        for ones in quality.values():
            one = ones[i]
            change = f" ({one['difference_percent']:+.2f} % ± {one['standard_error_percent']:.2f})" if i else ""
            cells += [f"{one['bytes_per_position'] / 1024:.1f}", f"{one['perplexity']:.3f}{change}"]
        for ones in accepting.values():
            cells.append(f"{ones[i]['accepted']} of {ones[i]['drafted']}")
        rows.append(cells)
    head = ["keys", "values"]
    for model in quality:
        head += [f"{model}, KiB a position", "perplexity"]
    return table([*head, *accepting], rows)


def long_context(results):
    """Time of eight rows over that of one, and of one row beside f16, behind texts of several lengths."""
    files = {path.stem.removeprefix("long-context-"): json.loads(path.read_text())
             for path in sorted(results.glob("long-context-*.json"), reverse=True)}
    if not files:
        return ""
    rows = []
    for model, file in files.items():
        of = {(one["positions"], one["format"], one["rows"]): one for one in file["passes"]}
        for positions in sorted({key[0] for key in of}):
            def ms(form):
                return 1e3 * of[positions, form, 1]["seconds"]["median"]
            rows.append([model, f"{positions}", *(f"{ms(form):.1f}" for form in ("f16", "q8_0")),
                         *(f"{of[positions, form, 8]['of_first']:.2f}" for form in ("f16", "q8_0"))])
    cpu = {file["machine"]["cpu"] + ", " + file["isa"] for file in files.values()}
    return f"{' and '.join(sorted(cpu))}, {next(iter(files.values()))['threads']} threads:\n\n" + table(
        ["model", "positions", "one row, f16, ms", "q8_0", "eight rows of one, f16", "q8_0"], rows)


def xsimd(results):
    """Float kernels on xsimd's batches beside our own vector operations."""
    path = results / "xsimd.json"
    if not path.exists():
        return ""
    trials = [(f"{version}, {instruction_set}", trial) for version, sets in json.loads(path.read_text())["xsimd"].items()
              for instruction_set, trial in sets.items()]
    cases = list(trials[0][1]["cases"])

    def shown(case):
        ratio = f"{case['ratio']:.2f}" if "ratio" in case else "same bits" if case["same_bits"] else ""
        return ratio + ("" if case["same_bits"] else f"{' ' if ratio else ''}(other bits)")

    rows = [[name] + [shown(trial["cases"][case]) for case in cases]
            + [f"{trial['functions_left']['xsimd']} ({trial['functions_left']['own']})"] for name, trial in trials]
    return table(["xsimd", *cases, "functions left, unoptimised (our own)"], rows)


def trees(results):
    """Tokens and rows of a round by the shape of a draft model's drafts."""
    files = measured.load(results, "trees")
    parts = []
    for result in files.values():
        ways = result["ways"]
        groups = list(next(iter(ways.values())))
        rows = []
        for way, counts in ways.items():
            rounds = sum(c["rounds"] for c in counts.values())
            rows.append([way, number(1 + sum(c["drafted"] for c in counts.values()) / rounds),
                         number(sum(c["emitted"] for c in counts.values()) / rounds),
                         *(number(counts[group]["emitted"] / counts[group]["rounds"]) for group in groups)])
        sampling = result.get("temperature", 0)
        parts.append((f"At temperature {sampling}, with match acceptance:\n\n" if sampling else "At temperature 0:\n\n") +
                     table(["drafts", "rows", "tokens", *(group.split("_")[0] for group in groups)], rows))
    return "\n\n".join(parts)


def simulated(results):
    """Decoding over plain decoding on machines that were measured, without and with draft models."""
    parts = []
    for model, result in measured.load(results, "simulated").items():
        prompts = result["prompts"]
        rows = []
        for machine in prompts[0]["machines"]:
            for draft in prompts[0]["machines"][machine]:
                step = result["steps"].get(draft)

                def of(prompt):
                    return prompt["machines"][machine][draft]

                means = measured.by_group(prompts, lambda prompt: of(prompt)["ratio"])
                worst = min(of(prompt)["ratio"] for prompt in prompts)
                a_pass = sum(prompt["tokens"] for prompt in prompts) / sum(of(prompt)["rounds"] for prompt in prompts)
                name = {**MACHINES, "zen3": "Zen 3"}.get(machine, machine)
                rows.append([f"{name}, " + (f"{draft}, {step:.2f}" if step else draft or "no draft model"),
                             *(f"{value:.2f}" for value in (*means.values(), worst, a_pass))])
        head = [model, *(group.split("_")[0] for group in means), "worst prompt", "tokens a pass"]
        parts += [f"From `bench/results/simulated-{model}.json`.", table(head, rows)]
    return "\n\n".join(parts)


def gpu_plan(results):
    """Weights that a multiprocessor of a GPU has on their way, by the compiled kernels."""
    path = results / "gpu-plan.json"
    if not path.exists():
        return ""
    plan = json.loads(path.read_text())
    rows = [[one["format"], one["rows"], str(one["registers"]), f"{one['shared_bytes'] / 1024:.0f}", str(one["blocks"]),
             one["limit"], f"{one['blocks'] * one['bytes_on_their_way'] / 1024:.0f}"] for one in plan["products"]]
    chip = plan["chip"]
    return (f"{plan['compiler']}, for an {chip['name']} with {chip['multiprocessors']} multiprocessors, whose memory gives "
            f"{chip['bytes_per_second'] / 1e12:.1f} TB/s. To keep that busy over {chip['latency_seconds'] * 1e9:.0f} ns "
            f"takes {plan['bytes_needed'] / 1024:.0f} KB on their way in each.\n\n") + table(
        ["weights", "rows", "registers", "shared memory of a block, KB", "blocks together", "limited by",
         "on their way, KB"], rows)


def gpu(results):
    """Passes, operators and decoding on a GPU, and PyTorch beside them, as bench/gpu.sh printed them."""
    path = results / "gpu.log"
    if not path.exists():
        return ""
    models, of = {}, None
    for line in path.read_text().splitlines():
        if made := re.match(r"(\S+): making weights", line):
            of = models.setdefault(made[1], {"rows": {}, "operators": {}, "decoding": {}})
        elif found := re.match(r" *(\d+) rows: *([\d.]+) us, ([\d.]+) of one", line):
            of["rows"][int(found[1])] = (float(found[2]), float(found[3]))
        elif found := re.match(r"  weights at ([\d.]+) of a copy's (\d+) GB/s \(goal ([\d.]+)\)", line):
            of["weights"], of["copy"], of["goal"] = (float(found[i]) for i in (1, 2, 3))
        elif found := re.match(r"  (\S.*\S): ([\d.]+) us a token", line):
            of["decoding"][found[1]] = float(found[2])
        elif found := re.match(r"  (\S.*\S)  +([\d.]+) us, ([\d.]+) of a copy", line):
            of["operators"][found[1]] = (float(found[2]), float(found[3]))
    run = json.loads((results / "gpu.json").read_text())
    sizes = [m for m in next(iter(models.values()))["rows"] if m > 1]
    goal = lambda one: f" (goal {one['goal']:.2f})" if one["goal"] else ""
    passes_of = table(["", "one row, us", "weights read, of a copy", *[f"T({m})/T(1)" for m in sizes]],
                      [[name, f"{one['rows'][1][0]:.0f}", f"{one['weights']:.2f}{goal(one)}",
                        *[f"{one['rows'][m][1]:.2f}" for m in sizes]] for name, one in models.items()])
    names = ["qkv", "attend, output", "feed-forward", "head, argmax"]
    alone = table(["one row, us (of a copy)", *names],
                  [[name, *[f"{one['operators'][n][0]:.0f} ({one['operators'][n][1]:.2f})" for n in names]]
                   for name, one in models.items()])
    torch = {}
    if (beside := results / "gpu-torch.json").exists():
        for model in json.loads(beside.read_text())["models"]:
            torch[model["model"]] = {way: 1e6 * us["median"] for way, us in model["seconds_a_token"].items()}
    ways = ["7 drafted, all right", "7 drafted, 0.8 of them right", "7 drafted by the model itself"]
    rows = []
    for name, one in models.items():
        decoding = one["decoding"]
        if "plain" not in decoding:
            continue
        theirs = torch.get(name)
        rows.append([name, f"{1e6 / decoding['plain']:.0f}", *[f"{decoding['plain'] / decoding[way]:.2f}" for way in ways],
                     f"{theirs['compiled'] / decoding['plain']:.2f}" if theirs else "",
                     f"{theirs['assisted'] / decoding[ways[2]]:.1f}" if theirs else ""])
    decoding = table(["", "plain tokens/s", *[f"{way}, of plain" for way in ways], "plain, of compiled PyTorch",
                      "own draft, of assisted generation"], rows)
    copy = statistics.median(one["copy"] for one in models.values())
    return (f"{run['device']}, where a copy reads and writes {copy:.0f} GB/s; random weights, 256 tokens of context; medians. "
            f"From `bench/results/{results.name}/gpu.log`.\n\n" + "\n\n".join([passes_of, alone, decoding]))


def gpu_chains(results):
    """What a kernel of a GPU takes besides what it does, as bench/gpu/chains.cu measured it."""
    path = results / "chains.json"
    if not path.exists():
        return ""
    run = json.loads(path.read_text())
    us = lambda seconds: f"{1e6 * seconds:.2f}"
    rows = [[f"{one['instructions']}", str(one["blocks"]), us(one["behind_the_end"]),
             *[us(one["early"][kinds]) for kinds in ("1", "4", "16")]] for one in run["chains"]]
    barrier = " and ".join(f"{us(seconds)} us between {blocks} blocks" for blocks, seconds in
                           run["seconds_a_barrier"].items())
    return (f"{run['device']}, graphs of {run['kernels']} kernels of 128 threads, us a kernel; medians. From "
            f"`bench/results/{results.name}/chains.json`. A barrier of all blocks within one kernel takes {barrier}.\n\n") + table(
        ["instructions in a line", "blocks", "begins behind the end", "begins early", "4 kernels in turns", "16 in turns"], rows)


def operators(results):
    """Every operator on one thread, beside the peaks."""
    path = results / "micro.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())

    def middle(value):
        return value["median"] if isinstance(value, dict) else value

    rows = []
    for name, one in result["benchmarks"].items():
        if name.startswith(("memory", "cache")):
            continue
        time = middle(one["time_ns"])
        rate = [f"{number(middle(one[c]))} {c}" for c in ("GMAC/s", "GB/s") if c in one]
        part = [f"{middle(one[c]):.2f} {text}"
                for c, text in (("of_peak", "of the peak"), ("of_stream", "of the stream read")) if c in one]
        rows.append([f"`{name}`", "" if name.startswith("peak") else number(time / 1000), ", ".join(rate),
                     ", ".join(part)])
    first = {"micro": {**result, "threads": 1}}
    return source(results, "micro.json", first) + "\n\n" + table(["operator", "us", "rate", "limit"], rows)


def isas(results):
    """Tokens/s and T(M)/T(1) of one model with every instruction set."""
    path = results / "isas.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    rows = []
    for isa, speeds in result["isas"].items():
        ratios = [statistics.median(m * one / many for one, many in zip(speeds["pp1"]["values"],
                                                                        speeds[f"pp{m}"]["values"])) for m in (4, 8, 16)]
        rows.append([f"`{isa}`", *(number(speeds[t]["median"]) for t in ("tg16", "pp4", "pp8", "pp16", "pp128")),
                     *(f"{ratio:.2f}" for ratio in ratios)])
    head = ["plain decoding", "M=4", "M=8", "M=16", "M=128", "T(4)/T(1)", "T(8)/T(1)", "T(16)/T(1)"]
    where = source(results, "isas.json", {"isas": {**result, "isa": "all of its instruction sets"}})
    return where + "\n\n" + table([result["model"] + ", tokens/s", *head], rows)


def matmul(results):
    """The matrix product of every format on one thread, beside the peaks."""
    path = results / "micro.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    cells = {}
    for name, one in result["benchmarks"].items():
        if name.startswith(("memory", "cache")):
            place, _, kind, rows = name.split("/")
            counter, part = ("GB/s", "of_stream") if place == "memory" and rows in ("1", "4", "8") else ("GMAC/s", "of_peak")
            cells.setdefault(kind, {})[place, rows] = f"{number(one[counter]['median'])} ({one[part]['median']:.2f})"
    columns = [("memory", "1"), ("memory", "4"), ("memory", "8"), ("cache", "1"), ("cache", "8"), ("memory", "512")]
    head = ["GB/s (of the stream read), M=1", "M=4", "M=8", "GMAC/s (of the peak) from cache, M=1", "M=8", "M=512"]
    rows = [[kind, *[by.get(column, "") for column in columns]] for kind, by in cells.items()]
    where = source(results, "micro.json", {"micro": {**result, "threads": 1}})
    return where + "\n\n" + table(["format", *head], rows)


def perplexity(results):
    """With int8 and with float activations, on the same tokens."""
    files = measured.load(results, "perplexity")
    if not files:
        return ""
    def difference(one):
        return f"{one['difference_percent']:+.2f} % ± {one['standard_error_percent']:.2f}"

    rows = []
    for model, result in files.items():
        one = result["float_activations"]
        rows.append([model, str(one["predicted_tokens"]), f"{one['perplexity']:.3f}", f"{one['exact_perplexity']:.3f}",
                     difference(one), difference(result["q8_0_cache"]) if "q8_0_cache" in result else ""])
    head = ["model", "tokens", "int8 activations", "float activations", "difference", "q8_0 cache instead of f16"]
    return source(results, "perplexity-*.json", files) + "\n\n" + table(head, rows)


def loading(results):
    """Seconds to load, and GB/s of repacking."""
    path = results / "loading.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    models = result["models"]

    def row(name, get):
        return [name, *[get(one) for one in models.values()]]

    def seconds(value):
        return f"{value['median']:.3f}"

    rows = [row("loading, file in memory, s", lambda r: seconds(r["hot"]["seconds"])),
            row("weights alone, s", lambda r: seconds(r["hot"]["seconds_weights"])),
            row("tokenizer alone, s", lambda r: seconds(r["hot"]["seconds_tokenizer"])),
            row("weights, GB/s of the file a core", lambda r: number(r["hot"]["GB_per_s_a_core"]["median"])),
            row("loading, file dropped from memory, s", lambda r: seconds(r["cold"]["seconds"])),
            row("with `--keep-packed`, file in memory, s", lambda r: seconds(r["packed_hot"]["seconds"])),
            row("weights alone, s", lambda r: seconds(r["packed_hot"]["seconds_weights"])),
            row("with `--keep-packed`, file dropped, s", lambda r: seconds(r["packed_cold"]["seconds"])),
            row("the first time, which writes it, s", lambda r: f"{r['seconds_first_with_writing']:.2f}"),
            row("`foredraft generate -n 1`, s", lambda r: seconds(r["seconds_generate_1"]["packs"])),
            row("`foredraft generate -n 1 --keep-packed`, s", lambda r: seconds(r["seconds_generate_1"]["maps"])),
            row("plain decoding, mapped / packed", lambda r:
                f"{r['decoding_tokens_per_s']['mapped_of_packed']['median']:.2f}")]
    formats = result["repack_GB_per_s_1_thread"]
    repack = table(["format", *formats],
                   [["repacking, GB/s of the file, 1 thread", *[number(f["median"]) for f in formats.values()]]])
    return "\n\n".join([source(results, "loading.json", {"loading": result}), table(["", *models], rows), repack])


def answer_rows(prompts, ways, bases, last=lambda way: [], seconds="seconds"):
    """One row a way: its ratio to the best of its bases by group, their mean, and the worst prompt."""
    rows = []
    for way in ways:
        means = measured.by_group(prompts, lambda prompt: measured.answer_ratio(prompt, way, bases(way), seconds))
        worst = min(measured.answer_ratio(prompt, way, bases(way), seconds) for prompt in prompts)
        rows.append([way, *(f"{value:.2f}" for value in (*means.values(), worst)), *last(way)])
    return rows


def whole_answers(model, result, chosen=lambda way: True):
    """Whole answers in every chosen way over our plain decoding."""
    prompts, bases = result["prompts"], result["ways"]

    def accepted(way):
        ones = [prompt["ways"][way] for prompt in prompts if "rounds" in prompt["ways"][way]]
        return [f"{sum(sum(o['tokens']) for o in ones) / sum(sum(o['rounds']) for o in ones):.2f}" if ones else ""]

    plain = {way: measured.by_group(prompts, lambda p: statistics.median(measured.answer_speeds(p, [way])))
             for way in bases if is_plain(result, way)}
    rows = [[f"{way}, tokens/s", *map(number, means.values()), "", "1.00"] for way, means in plain.items()]
    head = [f"{model}, over our plain decoding", *next(iter(plain.values())), "worst prompt", "tokens a pass"]
    ways = [way for way in bases if way not in plain and chosen(way)]
    return table(head, rows + answer_rows(prompts, ways, lambda way: compared_with(result, way), accepted))


def behind_prompts(model, result):
    """The time behind the prompt, of ours in every way."""
    prompts = result["prompts"]
    timed = [way for way in result["ways"] if all("decode_seconds" in prompt["ways"][way] for prompt in prompts)]
    ways = [way for way in timed if not is_plain(result, way) and compared_with(result, way)[0] in timed]
    if not ways:
        return ""
    rows = answer_rows(prompts, ways, lambda way: compared_with(result, way), seconds="decode_seconds")
    reading = measured.by_group(prompts, lambda prompt: statistics.median(
        1 - behind / whole for behind, whole in zip(*(prompt["ways"]["plain"][key] for key in ("decode_seconds", "seconds")))))
    rows.append(["reading the prompt, part of a plain answer's time", *(f"{part:.2f}" for part in reading.values()), ""])
    groups = dict.fromkeys(prompt["group"] for prompt in prompts)
    return table([f"{model}, behind the prompt, over our plain decoding", *groups, "mean", "worst prompt"], rows)


def over_best_mode(model, result):
    """Ours over the best mode of llama.cpp (K10)."""
    prompts, modes = result["prompts"], peer_modes(result)
    ours = [way for way in OURS_AUTO if way in result["ways"]]
    if not modes or not ours:
        return ""
    alike = as_long(prompts, modes)
    head = [f"{model}, over the best mode of llama.cpp", *dict.fromkeys(p["group"] for p in alike), "mean", "worst prompt"]
    return ((table(head, answer_rows(alike, ours, lambda way: modes)) + "\n\n" if alike else "") +
            f"The best mode is the quickest one of each turn: {', '.join(modes)}, with the draft model as its file has it. "
            f"{len(alike)} of {len(prompts)} answers have as many tokens as llama.cpp's, and only these are compared.")


def is_plain(result, way):
    return result["ways"][way] == way and not is_peer(way)


def is_peer(way):
    return way.startswith(("llama.cpp", "openvino"))


def compared_with(result, way):
    return ["plain" if is_peer(way) else result["ways"][way]]


def noise(result):
    """How far two plain answers of one turn are apart, each in a process of its own."""
    other = "plain beside other draft"
    if other not in result["ways"]:
        return ""
    apart = [max(a / b, b / a) for prompt in result["prompts"]
             for a, b in zip(*(prompt["ways"][way]["seconds"] for way in ("plain", other)))]
    return (f" The slower one of two plain answers of a turn took {statistics.median(apart):.2f} times as long as the other "
            f"one in the median, {max(apart):.2f} times at most.")


def answer_tables(results, *makers, kind="answers"):
    parts = []
    for model, result in measured.load(results, kind).items():
        turns = [len(prompt["ways"]["plain"]["seconds"]) for prompt in result["prompts"]]
        parts += [source(results, f"{kind}-*.json", {kind: result}) +
                  f" Draft: {result['draft']}; other draft: {result['other_draft']}. {len(turns)} prompts, {sum(turns)} turns."
                  + noise(result), *(make(model, result) for make in makers)]
    return "\n\n".join(filter(None, parts))


def answers(results):
    """Whole answers and the time behind the prompt, in every way, and ours over the best mode of llama.cpp (K10)."""
    return answer_tables(results, whole_answers, behind_prompts, over_best_mode)


def answers_auto(results):
    """What most people look for: with nothing set, and beside the peers."""
    def chosen(way):
        return way in OURS_AUTO or is_peer(way) or way.startswith("0.7 auto")
    return answer_tables(results, lambda *of: whole_answers(*of, chosen), over_best_mode)


def answers_each(results):
    """Every drafter."""
    return answer_tables(results, lambda *of: whole_answers(*of, lambda way: not is_peer(way)), behind_prompts)


def answers_in_turns(results):
    """A few ways with several turns of each prompt, so that single prompts say something."""
    return answer_tables(results, whole_answers, kind="turns")


def constrained(results):
    """Answers under JSON schemas: what masks cost plain decoding, and what drafts gain over it."""
    parts = []
    for model, result in measured.load(results, "constrained").items():
        def ratios(way, over):
            """Of the time of a token, for each schema the median of the turns."""
            for schema in result["schemas"]:
                each = {name: [s / t for s, t in zip(one["seconds"], one["tokens"])] for name, one in schema["ways"].items()}
                yield statistics.median(o / w for w, o in zip(each[way], each[over]))

        def row(name, values):
            values = list(values)
            return [name, f"{statistics.geometric_mean(values):.2f}", f"{min(values):.2f}", f"{max(values):.2f}"]

        head = [f"{model}, {len(result['schemas'])} schemas", "mean", "least", "most"]
        parts += [source(results, "constrained-*.json", {"constrained": result}),
                  table(head, [row("plain under an expression that any text matches, over plain without",
                                   ratios("any", "free")),
                               row("plain under the schema, over plain without", ratios("plain", "free")),
                               row("with drafts under the schema, over plain under it", ratios("drafted", "plain"))])]
    return "\n\n".join(parts)


def second_turn(results):
    """The first token of a turn of a conversation, beside a prompt that is read anew."""
    found = measured.load(results, "second-turn")
    if not found:
        return ""
    head = ["", "tokens", "new ones", "read anew, ms", "second turn, ms", "of it"]
    rows = []
    for model, result in found.items():
        cold, warm = statistics.median(result["cold_seconds"]), statistics.median(result["second_turn_seconds"])
        rows.append([model, str(result["prompt_tokens"]), str(result["new_tokens"]), f"{1e3 * cold:.0f}", f"{1e3 * warm:.1f}",
                     f"{100 * warm / cold:.1f} %"])
    return source(results, "second-turn-*.json", found) + "\n\n" + table(head, rows)


def batch(results):
    """Tokens/s of many prompts by the number of texts that are written at once."""
    found = measured.load(results, "batch")
    parts = [source(results, "batch-*.json", found)] if found else []
    for model, result in found.items():
        head = [f"{model}, tokens/s"] + [f"{n} at once" for n in result["at_once"]]
        rows = [[name, *(number(way[str(n)]["tokens_per_second"]["median"]) for n in result["at_once"])]
                for name, way in result["ways"].items()]
        parts.append(table(head, rows))
        parts.append(f"{result['prompts']} prompts of {result['prompt_tokens']} tokens in all. Draft: {result['draft']}.")
    return "\n\n".join(parts)


def masks(results):
    """What masks of grammars cost: the first of a schema, and those of answers."""
    path = results / "masks.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    rows = [[schema["name"], f"{schema['first_milliseconds']:.1f}", str(round(schema["masks"])),
             *[f"{schema[when][q]:.1f}" for when in ("met_first_microseconds", "again_microseconds") for q in ("p50", "p99")]]
            for schema in result["schemas"]]
    head = [f"{result['tokens']:.0f} tokens", "to the first mask, ms", "masks", "met first: p50, us", "p99, us", "again: p50, us",
            "p99, us"]
    return source(results, "masks.json", {"masks": {**result, "threads": 1}}) + "\n\n" + table(head, rows)


def proposals(results):
    """What a proposal costs behind a long text, for every drafter that needs no model (K7)."""
    path = results / "proposals.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    texts = result["repeated"]
    rows = [[name, *[f"{one[q]:.2f}" for text in texts.values() for one in [text[name]] for q in ("p50", "p90")],
             f"{texts['50'][name]['drafted']:.1f}"] for name in next(iter(texts.values()))]
    head = [f"behind {result['history']} tokens, us"]
    for percent in texts:
        head += [f"{percent} % repeated: p50", "p90"]
    recycling = ", ".join(f"{one['p50']:.1f} us ({shape})" for shape, one in result["recycling"].items())
    return (source(results, "proposals.json", {"proposals": {**result, "threads": 1}}) + "\n\n"
            + table([*head, "tokens proposed at 50 %"], rows)
            + f"\n\nA round of 8 rows takes token recycling {recycling}, proposal and commit together.")


def recurrent(results):
    """Passes of models with recurrent layers, and what their states cost."""
    path = results / "recurrent.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    rows = []
    for model, ways in result["models"].items():
        for way in ("replay", "slots"):
            one = ways[way]
            rows.append([f"{model}, {way.capitalize()}", f"{one['tokens_per_s']['median']:.0f}",
                         *[f"{one['of_one_row'][m]['median']:.2f}" for m in ("2", "4", "8", "16")],
                         *[f"{one['behind_a_commit'][n]['median']:.2f}" for n in ("1", "4", "8")],
                         f"{1e6 * one['stage_and_commit_seconds']['8']['median']:.1f}", f"{one['cache_bytes'] / 1e6:.0f}"])
    head = ["random weights, Q4_K", "tokens/s", "T(2)/T(1)", "T(4)", "T(8)", "T(16)", "8 rows behind 1", "behind 4",
            "behind 8", "stage and commit, us", "cache, MB"]
    return source(results, "recurrent.json", {"recurrent": result}) + "\n\n" + table(head, rows)


def plain(results):
    """Plain decoding beside llama.cpp's own benchmark, models that other tables do not have."""
    path = results / "plain.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    rows = []
    for model, speeds in result["models"].items():
        mine, theirs = (speeds[f"{engine} tokens_per_second"] for engine in ("foredraft", "llama.cpp"))
        of_each = [a / b for a, b in zip(mine, theirs)]
        rows.append([model, f"{statistics.median(mine):.0f}", f"{statistics.median(theirs):.0f}",
                     f"{statistics.median(of_each):.2f}", f"{min(of_each):.2f} to {max(of_each):.2f}"])
    head = ["", "tokens/s", "llama.cpp", "ratio", "of single turns"]
    return source(results, "plain.json", {"plain": result}) + "\n\n" + table(head, rows)


TABLES = {"goals": goals, "passes": passes, "bench": bench, "isas": isas, "matmul": matmul, "operators": operators,
          "loading": loading, "perplexity": perplexity, "answers": answers,
          "constrained": constrained, "masks": masks, "proposals": proposals, "recurrent": recurrent, "plain": plain,
          "second_turn": second_turn, "batch": batch, "gpu": gpu, "gpu_chains": gpu_chains}
OF_ALL_MACHINES = {"summary": summary, "agreement": agreement, "xsimd": xsimd, "cache_formats": cache_formats,
                   "long_context": long_context, "trees": trees, "simulated": simulated,
                   "gpu_plan": gpu_plan}
# For pages that show them apart.
PARTS_OF_ANSWERS = {"answers_auto": answers_auto, "answers_each": answers_each, "answers_in_turns": answers_in_turns}
MARKED = re.compile(r"(<!-- begin (?P<name>\w+)(?: (?P<machine>[\w-]+))? -->\n).*?(<!-- end -->)", re.S)


def filled(text):
    """A page with its tables as the result files have them."""
    def fill(marked):
        make = {**TABLES, **OF_ALL_MACHINES, **PARTS_OF_ANSWERS}[marked["name"]]
        made = make(measured.RESULTS / (marked["machine"] or ""))
        return f"{marked[1]}\n{made}\n\n{marked[4]}" if made else marked[0]

    return MARKED.sub(fill, text)


def main():
    check = sys.argv[1:] == ["--check"]
    if len(sys.argv) > 1 and not check:
        print("\n\n".join(filter(None, (make(pathlib.Path(sys.argv[1]).resolve()) for make in TABLES.values()))))
        return
    stale = []
    for page in sorted(PAGES.rglob("*.md")):
        text = page.read_text()
        if filled(text) != text:
            stale.append(str(page.relative_to(measured.ROOT)))
            if not check:
                page.write_text(filled(text))
    if check and stale:
        sys.exit("not as in bench/results, run python3 bench/tables.py: " + ", ".join(stale))


if __name__ == "__main__":
    main()
