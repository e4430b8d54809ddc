"""Draw the result files: python3 bench/plots.py [FOLDER]

For each machine of bench/results, in docs/design/images/MACHINE: speed.svg, plain decoding and checking drafts, ours and
theirs; rows.svg, what further rows of a forward pass cost; roofline.svg, each pass between the speed of memory and that of
the int8 dot product; answers.svg, whole answers, plain and drafted. In docs/design/images: panel.svg, the layout of packed
weights. With FOLDER, only the plots of the files in it, in its own folder images. A plot whose result files are missing keeps
what it had.
"""
import math
import pathlib
import statistics
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "foredraft", "font.size": 9, "axes.grid": True,
                            "grid.color": "#dddddd", "axes.axisbelow": True, "legend.frameon": False,
                            "font.family": "sans-serif", "axes.spines.top": False, "axes.spines.right": False})
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, NullLocator

from measured import ORDER, RESULTS, ROOT, answer_speeds, by_group, load, verifications

IMAGES = ROOT / "docs/design/images"
COLORS = {"foredraft": "#0b6e4f", "llama.cpp": "#c8553d", "ik_llama.cpp": "#7b6db0", "ik_llama.cpp repacked": "#3f7cac"}
MARKS = {"foredraft": "o", "llama.cpp": "s", "ik_llama.cpp": "v", "ik_llama.cpp repacked": "^"}
GOALS = {4: 1.10, 8: 1.5, 16: 3.0}  # K3 of docs/design/measurements.md, for the largest model


def save(figure, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None}, facecolor="white", bbox_inches="tight", pad_inches=0.08)
    plt.close(figure)
    print(path, path.stat().st_size // 1024, "KB")


def plot_speed(peers, images):
    """Bars: tokens/s of plain decoding, and of passes that check 8 tokens, for each model."""
    if not peers:
        return
    engines = ("foredraft", "ik_llama.cpp", "llama.cpp")
    figure, axes = plt.subplots(1, len(peers), figsize=(3.4 * len(peers) + 0.4, 2.9), squeeze=False)
    for axis, (model, result) in zip(axes[0], peers.items()):
        tests = result["tokens_per_second"]
        plain = next(test for test in tests if test.startswith("tg"))
        for place, engine in enumerate(engines):
            # With repacked weights or without: what is quicker.
            speeds = [max(by["median"] for name, by in tests[test].items() if name.split()[0] == engine)
                      for test in (plain, "pp8")]
            bars = axis.bar([group + 0.27 * (place - 1) for group in (0, 1)], speeds, width=0.25, color=COLORS[engine],
                            label=engine)
            axis.bar_label(bars, fmt="%.0f", padding=2, fontsize=8)
        axis.set_title(model, fontsize=9)
        axis.set_xticks([0, 1], ["plain decoding", "checking drafts,\n8 tokens a pass"])
        axis.grid(False)
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
        axis.margins(y=0.1)
    axes[0][0].set_ylabel("tokens/s")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="upper center", ncols=3, bbox_to_anchor=(0.5, -0.03))
    save(figure, images / "speed.svg")


def plot_rows(peers, goals, images):
    models = list(dict.fromkeys([*peers, *goals]))
    if not models:
        return
    figure, axes = plt.subplots(1, len(models), figsize=(3.4 * len(models) + 0.4, 3.4), squeeze=False, sharey=True)
    for axis, model in zip(axes[0], models):
        for engine, curve in verifications(peers[model]).items() if model in peers else []:
            rows = list(curve)
            middle = [curve[m][0] for m in rows]
            axis.fill_between(rows, [curve[m][1] for m in rows], [curve[m][2] for m in rows], lw=0, alpha=0.15,
                              color=COLORS[engine])
            axis.plot(rows, middle, marker=MARKS[engine], ms=4, color=COLORS[engine], label=engine)
        for position, style in (("256", ":"), ("4096", "--")):
            curve = goals.get(model, {}).get("K3", {}).get(position)
            if curve:
                rows = [1, *map(int, curve)]
                axis.plot(rows, [1, *(s["median"] for s in curve.values())], ls=style, lw=1.2, color="#0b6e4f",
                          label=f"foredraft at {position} positions")
        if model == ORDER[0]:
            axis.plot(list(GOALS), list(GOALS.values()), ls="", marker="_", ms=14, mew=1.6, color="black", label="goal")
        axis.set_title(model, fontsize=9)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_locator(FixedLocator([1, 2, 4, 8, 16]))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xticklabels(["1", "2", "4", "8", "16"])
        axis.set_xlabel("rows M of a forward pass")
        axis.set_ylim(bottom=0)
    axes[0][0].set_ylabel("time of M rows / time of one row")
    handles, labels = [], []
    for axis in axes[0]:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    figure.legend(handles, labels, loc="upper center", ncols=min(len(labels), 4), bbox_to_anchor=(0.5, 0.0))
    save(figure, images / "rows.svg")


def plot_roofline(peers, goals, images):
    limits = []
    models = [m for m in goals if "dot_int8_GMAC_per_s_all_threads" in goals[m]]
    if not models:
        return
    figure, axes = plt.subplots(1, len(models), figsize=(3.4 * len(models) + 0.4, 3.4), squeeze=False, sharey=True)
    for axis, model in zip(axes[0], models):
        result = goals[model]
        per_byte = result["weights"] / result["weight_bytes"]["packed"]  # of one row
        memory = result["stream_read_GB_per_s"]["all_threads"]["median"]
        peak = result["dot_int8_GMAC_per_s_all_threads"]["median"]
        bend = peak / (memory * per_byte)  # rows at which both limits meet
        axis.plot([1, bend, 512], [memory * per_byte, peak, peak], color="black", lw=1.2)
        axis.annotate(f"int8 dot product, {peak:.0f} GMAC/s", (512, peak), ha="right", va="bottom", fontsize=8,
                      xytext=(0, 3), textcoords="offset points")
        for engine, by in points(peers.get(model), result).items():
            axis.plot(list(by), list(by.values()), marker=MARKS[engine], ms=4, lw=0.8, color=COLORS[engine],
                      label=engine)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.xaxis.set_major_locator(FixedLocator([1, 4, 16, 64, 512]))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xticklabels(["1", "4", "16", "64", "512"])
        axis.set_title(f"{model}, {per_byte:.2f} MAC/byte a row", fontsize=9)
        axis.set_xlabel("rows M (times MAC/byte: intensity)")
        limits.append((axis, memory, per_byte, bend))
    axes[0][0].set_ylabel("GMAC/s of whole forward passes")
    for axis, memory, per_byte, bend in limits:  # along the line, once all axes have their sizes
        (x0, y0), (x1, y1) = axis.transData.transform([(1, memory * per_byte), (bend, memory * per_byte * bend)])
        axis.annotate(f"memory, {memory:.0f} GB/s", (1.2, memory * per_byte * 1.2), xytext=(-4, 5),
                      textcoords="offset points", rotation=math.degrees(math.atan2(y1 - y0, x1 - x0)),
                      rotation_mode="anchor", ha="left", va="bottom", fontsize=8)
    handles, labels = max((axis.get_legend_handles_labels() for axis in axes[0]), key=lambda pair: len(pair[1]))
    figure.legend(handles, labels, loc="upper center", ncols=4, bbox_to_anchor=(0.5, 0.0))
    save(figure, images / "roofline.svg")


def points(peers, goals):
    """{engine: {M: GMAC/s}}; without a peers file our own passes at 256 positions."""
    if peers is None:
        passes = next(iter(goals["pass_seconds"].values()))
        return {"foredraft": {int(m): goals["weights"] * int(m) / s["median"] * 1e-9 for m, s in passes.items()}}
    out = {}
    for test, by in peers["tokens_per_second"].items():
        for engine, speed in by.items() if test.startswith("pp") else []:
            out.setdefault(engine, {})[int(test[2:])] = speed["median"] * goals["weights"] * 1e-9
    return out


def plot_answers(answers, images):
    """Bars: tokens/s of whole answers by group, plain and with the best way to draft, ours and theirs."""
    if not answers:
        return
    figure, axes = plt.subplots(len(answers), 1, figsize=(9.4, 2.9 * len(answers)), squeeze=False)
    for axis, (model, result) in zip(axes[:, 0], answers.items()):
        bars = answer_bars(result)
        width = 0.84 / len(bars)
        for place, (label, ways, color) in enumerate(bars):
            means = by_group(result["prompts"], lambda prompt: statistics.median(answer_speeds(prompt, ways)))
            at = [group + width * (place - (len(bars) - 1) / 2) for group in range(len(means))]
            drawn = axis.bar(at, means.values(), width=0.92 * width, color=color, label=label)
            axis.bar_label(drawn, fmt="%.0f", padding=1, fontsize=6.5)
        axis.set_xticks(range(len(means)), [group.replace("_", "\n") for group in means])
        axis.get_xticklabels()[-1].set_weight("bold")
        axis.axvline(len(means) - 1.5, color="#bbbbbb", lw=0.8)
        axis.set_title(f"{model}, whole answers", fontsize=9)
        axis.set_ylabel("tokens/s")
        axis.grid(False, axis="x")
        axis.margins(x=0.01, y=0.1)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.tight_layout()
    figure.legend(handles, labels, loc="upper center", ncols=3, bbox_to_anchor=(0.5, 0.03))
    save(figure, images / "answers.svg")


def answer_bars(result):
    """(label, ways of which the best one of each turn counts, color), of engines that were measured."""
    ways, draft = result["ways"], result["draft"]
    llama = [way for way in ways if way.startswith("llama.cpp ") and way != "llama.cpp plain"]
    bars = (("foredraft plain", ["plain"], "#9cc9b6"), ("foredraft auto, without a draft model", ["auto"], "#3f9a76"),
            (f"foredraft auto, draft model {draft}", ["auto + draft"], "#0b6e4f"),
            ("llama.cpp plain", ["llama.cpp plain"], "#edc0b2"),
            ("llama.cpp, its best mode of drafting", llama, "#c8553d"),
            ("OpenVINO GenAI plain", ["openvino plain"], "#cfd3d8"),
            ("OpenVINO GenAI, prompt lookup", ["openvino lookup"], "#7f8a96"))
    return [bar for bar in bars if bar[1] and all(way in ways for way in bar[1])]


def plot_panel(images):
    """The packed layout from the matrix down to what one instruction multiplies, for Q4_K."""
    figure, axis = plt.subplots(figsize=(9.4, 6.3))
    axis.set_xlim(0, 94)
    axis.set_ylim(-0.5, 63)
    axis.axis("off")
    ink, green, sand, blue, grey = "#222222", "#cfe8dc", "#f3e3c3", "#cfdff0", "#eeeeee"

    def box(x, y, w, h, color, text="", size=8, **more):
        axis.add_patch(Rectangle((x, y), w, h, facecolor=color, edgecolor=ink, lw=more.pop("lw", 0.8)))
        axis.text(x + w / 2, y + h / 2, text, ha="center", va="center", fontsize=size, **more)

    def zoom(x0, x1, y, to_x0, to_x1, to_y):
        for a, b in ((x0, to_x0), (x1, to_x1)):
            axis.plot([a, b], [y, to_y], color="#888888", lw=0.7, ls=(0, (3, 2)))

    # 1: the matrix
    axis.text(1, 61, "weight matrix: n_out rows, n_in columns", fontsize=9, weight="bold")
    for i, name in enumerate(("panel 0: rows 0 .. 15", "panel 1: rows 16 .. 31", "panel 2", "...")):
        box(1, 56 - 4 * i, 34, 3.4, green if i == 1 else grey, name)
    axis.text(37, 54, "16 rows make a panel. Panels follow each other in memory,\nand threads share them out: "
              "a sum is never divided.", fontsize=8.5, va="center")
    # 2: the panel
    axis.text(1, 40.3, "panel: blocks of 256 columns, one behind the other", fontsize=9, weight="bold")
    zoom(1, 35, 52, 1, 70, 39.2)
    for i in range(6):
        box(1 + 11.5 * i, 35.8, 11.5, 3.4, green if i == 2 else grey,
            f"block {i}" if i < 5 else "...")
    axis.text(72, 37.5, "read from left to right,\nprefetched kilobytes ahead", fontsize=8.5, va="center")
    # 3: the block
    axis.text(1, 31.6, "block of Q4_K: 2368 bytes, 37 cache lines", fontsize=9, weight="bold")
    zoom(24, 35.5, 35.8, 1, 93, 30.2)
    parts = (("d\nf16", 6, "16 rows"), ("dmin\nf16", 6, "16 rows"), ("scales\nu8", 9, "8 x 16 rows"),
             ("mins\nu8", 9, "8 x 16 rows"))
    x = 1
    for name, width, note in parts:
        box(x, 25.4, width, 4.8, sand, name, 7.5)
        axis.text(x + width / 2, 24.8, note, ha="center", va="top", fontsize=7)
        x += width
    step = (93 - x) / 8
    for i in range(8):
        box(x + i * step, 25.4, step, 4.8, blue if i else "#8fb7df", f"k {32 * i}..{32 * i + 31}", 6.5)
    # 4: the unit
    zoom(x, x + step, 25.4, 9, 93, 18.9)
    axis.text(1, 20.3, "unit: one 64-byte vector in a register, 16 rows x 4 consecutive k", fontsize=9,
              weight="bold")
    axis.text(93, 24.8, "4 vectors of codes for 32 k: two units share one,\nin its low and in its high nibbles",
              ha="right", va="top", fontsize=7)
    rows = ((15.4, blue, "codes", "4 codes", 6), (10.0, sand, "activations", "a0 a1 a2 a3", 4.6),
            (4.6, green, "sums", "int32", 6.5))
    for y, color, name, text, size in rows:
        axis.text(8.3, y + 1.75, name, ha="right", va="center", fontsize=7.5)
        for r in range(16):
            box(9 + 5.25 * r, y, 5.25, 3.5, color, f"row {r}" if name == "codes" else text, size)
            for j in range(1, 4) if name == "codes" else ():
                axis.plot([9 + 5.25 * r + 1.3125 * j] * 2, [y, y + 0.7], color=ink, lw=0.5)
    axis.text(51, 14.45, "times the same four int8 activations of one token for every row, a broadcast from memory",
              ha="center", va="center", fontsize=7.5)
    axis.text(51, 9.05, "plus: each lane adds its own four products (vpdpbusd: 64 products in one instruction)",
              ha="center", va="center", fontsize=7.5)
    axis.text(1, 1.6, "Lane r is output row r from the first code to the stored result: nothing is ever added across "
              "lanes. M tokens use the unpacked unit\nM times, with M accumulators: weights are read and unpacked "
              "once, however many tokens there are.", fontsize=8, va="center")
    save(figure, images / "panel.svg")


def plot_machine(results, images):
    peers, goals = load(results, "peers"), load(results, "goals")
    plot_speed(peers, images)
    plot_rows(peers, goals, images)
    plot_roofline(peers, goals, images)
    plot_answers(load(results, "answers"), images)


def main():
    if len(sys.argv) > 1:
        folder = pathlib.Path(sys.argv[1])
        plot_machine(folder, folder / "images")
        return
    plot_panel(IMAGES)
    for folder in sorted(filter(pathlib.Path.is_dir, RESULTS.iterdir())):
        plot_machine(folder, IMAGES / folder.name)


if __name__ == "__main__":
    main()
