"""Put the result files into the documentation: python3 bench/tables.py [FOLDER]

Rewrites what stands between `<!-- begin NAME MACHINE -->` and `<!-- end -->` in docs/design/measurements.md from the
files in bench/results/MACHINE, for the names below. A table without result files is left as it is. With FOLDER, all
tables of the files in it are printed instead.
"""
import json
import pathlib
import re
import statistics
import sys

import measured

PAGE = measured.ROOT / "docs/design/measurements.md"


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def source(files):
    """Where numbers come from, as a sentence."""
    first = next(iter(files.values()))
    engine = first.get("engines", {}).get("foredraft", first)
    machine = first["machine"]
    busy = machine.get("busy_before", 0)
    disturbed = f"; {100 * busy:.0f} % of the machine was busy with something else" if busy > 0.05 else ""
    commits = list(dict.fromkeys(file["commit"] for file in files.values()))
    return (f"{machine['cpu']}, {machine['cores']} cores, threads: {engine['threads']}, {engine['isa']}, "
            f"{first['date'][:10]}, commit {' and '.join(commits)}{disturbed}.")


def passes(results):
    """Tokens/s of forward passes and T(M)/T(1), ours and theirs, for every model."""
    files = measured.load(results, "peers")
    picture = f"![Time of M rows over the time of one, ours and theirs](images/{results.name}/rows.svg)"
    parts = [source(files), picture] if files else []
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
    return source(files) + "\n\n" + table(["tokens/s", *(f"`{test}`" for test in tests)], rows)


def peers(results):
    """How much faster than the peers, for every model."""
    files = measured.load(results, "peers")
    if not files:
        return ""
    rows = []
    for goal, name in (("K2", "plain decoding (K2)"), ("M8", "8 rows"), ("K4", "prompt of 512 (K4)")):
        for peer in ("llama.cpp", "ik_llama.cpp"):
            values = [result["goals"].get(goal, {}).get(peer) for result in files.values()]
            if any(values):
                rows.append([f"{name} / {peer}"] + [number(v["median"]) if v else "" for v in values])
    rows.append(["weights read, plain decoding / stream read"]
                + [f"{r['goals']['decoding_of_stream_read']['median']:.2f}" for r in files.values()])
    return source(files) + "\n\n" + table(["foredraft / peer, median of turns", *files], rows)


def goals(results):
    """The goals K1, K3, K5, K6 and K8 beside what was measured."""
    files = measured.load(results, "goals")
    if not files:
        return ""

    def row(name, goal, get):
        values = []
        for result in files.values():
            try:
                values.append(f"{get(result):.2f}")
            except (KeyError, TypeError):
                values.append("")
        return [name, goal, *values]

    rows = [row("K1: weights/s at M=1 / stream read beside it", ".90, .82, .75",
                lambda r: r["K1"]["of_stream_read_beside"]["median"]),
            row("K1 against the best stream read of the run", "", lambda r: r["K1"]["of_best_stream_read"])]
    for position, limits in (("256", {4: "1.10", 8: "1.5", 16: "3.0"}), ("4096", {4: "", 8: "", 16: ""})):
        for m, limit in limits.items():
            rows.append(row(f"K3: T({m})/T(1) at {position} positions", limit,
                            lambda r, m=m, p=position: r["K3"][p][str(m)]["median"]))
    for kind in ("Q4_K", "Q6_K", "Q4_1", "Q5_0", "Q8_0"):
        rows.append(row(f"K5: use of the dot product, M=8 from L2, {kind}", ".73",
                        lambda r, k=kind: r["K5"][k]["median"]))
    rows += [
        row("K6: host work of a round, greedy, us", "20",
            lambda r: r["K6"]["greedy"]["microseconds_a_round"]["median"]),
        *(row(f"K6: a row read, {kind}, us", "50", lambda r, k=kind: r["K6"][k]["microseconds_a_row"]["median"])
          for kind in ("temperature 0.8, top-k 40, top-p 0.95", "temperature 0.8, top-p 0.95", "temperature 1",
                       "rejection, temperature 1")),
        row("K8: attention at 4096, M=1 / stream read", ".75", lambda r: r["K8"]["M1_of_stream_read"]["median"]),
        row("K8: attention at 4096, M=8 / float multiply-add peak", ".65",
            lambda r: r["K8"]["M8_of_fma_peak"]["median"]),
        row("K8: time with a q8_0 cache / f16, M=1", ".80", lambda r: r["K8"]["q8_0_time_of_f16"]["1"]["median"]),
        row("stream read, all threads, GB/s", "", lambda r: r["stream_read_GB_per_s"]["all_threads"]["median"]),
        row("int8 dot product, one thread, GMAC/s", "", lambda r: r["dot_int8_GMAC_per_s_1_thread"]["median"])]
    picture = ("![Forward passes between the speed of memory and that of the dot product]"
               f"(images/{results.name}/roofline.svg)")
    rows = [cells for cells in rows if any(cells[2:])]  # older files lack the newer ones
    return "\n\n".join([source(files), picture, table(["", "goal", *files], rows)])


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
    return source(first) + "\n\n" + table(["operator", "us", "rate", "limit"], rows)


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
    where = source({"isas": {**result, "isa": "all of its instruction sets"}})
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
    return source({"micro": {**result, "threads": 1}}) + "\n\n" + table(["format", *head], rows)


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
    return source(files) + "\n\n" + table(head, rows)


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
            row("with `--packed-cache`, file in memory, s", lambda r: seconds(r["packed_hot"]["seconds"])),
            row("weights alone, s", lambda r: seconds(r["packed_hot"]["seconds_weights"])),
            row("with `--packed-cache`, file dropped, s", lambda r: seconds(r["packed_cold"]["seconds"])),
            row("the first time, which writes it, s", lambda r: f"{r['seconds_first_with_writing']:.2f}"),
            row("`foredraft generate -n 1`, s", lambda r: seconds(r["seconds_generate_1"]["packs"])),
            row("`foredraft generate -n 1 --packed-cache`, s", lambda r: seconds(r["seconds_generate_1"]["maps"])),
            row("plain decoding, mapped / packed", lambda r:
                f"{r['decoding_tokens_per_s']['mapped_of_packed']['median']:.2f}")]
    formats = result["repack_GB_per_s_1_thread"]
    repack = table(["format", *formats],
                   [["repacking, GB/s of the file, 1 thread", *[number(f["median"]) for f in formats.values()]]])
    return "\n\n".join([source({"loading": result}), table(["", *models], rows), repack])


TABLES = {"passes": passes, "bench": bench, "peers": peers, "loading": loading, "goals": goals, "isas": isas,
          "matmul": matmul, "operators": operators, "perplexity": perplexity}
MARKED = re.compile(r"(<!-- begin (?P<name>\w+) (?P<machine>[\w-]+) -->\n).*?(<!-- end -->)", re.S)


def main():
    if len(sys.argv) > 1:
        print("\n\n".join(make(pathlib.Path(sys.argv[1])) for make in TABLES.values()))
        return

    def fill(marked):
        made = TABLES[marked["name"]](measured.RESULTS / marked["machine"])
        return f"{marked[1]}\n{made}\n\n{marked[4]}" if made else marked[0]

    PAGE.write_text(MARKED.sub(fill, PAGE.read_text()))


if __name__ == "__main__":
    main()
