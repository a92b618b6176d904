"""The page of bench/memory.py: one file with charts and tables of the CSV files in a folder, which needs no network."""

import csv
import html
import io

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as pyplot  # noqa: E402

from memory_design import BASE  # noqa: E402

MIB = 2**20
INK = "#123456"  # becomes the page's text colour, light or dark
COLOURS = ["#3b82c4", "#d97b29", "#3f9b57", "#b65fc9", "#8a8f98", "#c94f5d"]  # legible on both

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fcfcfa; --line: #8886; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e3; --paper: #17181a; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; padding: 0 1rem; max-width: 72rem; }
figure { margin: 2rem 0; } svg { max-width: 100%; height: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; }
caption { text-align: left; font-weight: 600; padding: .5rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: right; white-space: nowrap; }
"""
PICTURE_STYLE = "svg { color: #1c1e21 } @media (prefers-color-scheme: dark) { svg { color: #e6e6e3 } }"


def rows_of(folder, name):
    file = folder / f"{name}.csv"
    return list(csv.DictReader(file.open())) if file.exists() else []


def svg_of(figure):
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
    return text.getvalue()[text.getvalue().index("<svg"):].replace(INK, "currentColor")


def figure_of(svg, caption):
    text = html.escape(caption)
    drawing = svg.replace("<svg", f'<svg role="img" aria-label="{text}"', 1)
    return f"<figure>{drawing}<figcaption>{text}</figcaption></figure>"


def stacked(axes, labels, parts):
    """Bars from left to right, of parts that add up: {name: [MiB, …]}."""
    left = [0.0] * len(labels)
    for colour, (name, values) in zip(COLOURS, parts.items()):
        axes.barh(labels, values, left=left, label=name, color=colour)
        left = [before + value for before, value in zip(left, values)]
    axes.invert_yaxis()
    axes.set_xlabel("MiB")


def plain(row):
    """Whether only model and budget differ from the base; a resident run recomputes nothing."""
    free = {"model", "budget"} | ({"recompute"} if row["budget"] == "resident" else set())
    return all(row[knob] == str(value) for knob, value in BASE.items() if knob not in free)


def chart_of_budgets(rows, picture):
    """Also a file of its own."""
    chosen = sorted(filter(plain, rows), key=lambda row: ["resident", "1", "1/2", "1/4", "1/8"].index(row["budget"]))
    models = list(dict.fromkeys(row["model"] for row in rows if plain(row)))
    figure, axes = pyplot.subplots(len(models), 1, figsize=(9, 2.1 * len(models)), layout="constrained", squeeze=False)
    for axis, model in zip(axes[:, 0], models):
        of_model = [row for row in chosen if row["model"] == model]
        mib = lambda key: [int(row[key]) / MIB for row in of_model]
        parts = {"device, planned and measured": mib("measured_device_bytes"), "host, planned and measured": mib("measured_host_bytes"),
                 "scratch": mib("measured_scratch_bytes")}
        sums = [sum(values) for values in zip(*parts.values())]
        parts["the process besides"] = [rss - known for rss, known in zip(mib("rss_training_bytes"), sums)]
        stacked(axis, [row["budget"] for row in of_model], parts)
        for bar, (row, end) in enumerate(zip(of_model, mib("rss_training_bytes"))):
            axis.text(end, bar, f"  {float(row['step_over_resident']):.2f} × the step", va="center", fontsize="small")
        axis.set_title(model, loc="left")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False)
    svg = svg_of(figure)
    picture.write_text(svg.replace(">", f"><style>{PICTURE_STYLE}</style>", 1))
    return figure_of(svg, "Memory of a run by device budget, as parts of the need: the tiers' peaks, and the process's peak in training steps by the kernel; the step's time over the resident run's")


def chart_of_largest(rows):
    figure, axes = pyplot.subplots(figsize=(9, 5), layout="constrained")
    for index, way in enumerate(dict.fromkeys(row["way"] for row in rows)):
        of_way = [row for row in rows if row["way"] == way]
        axes.plot([int(row["device_bytes"]) / MIB for row in of_way], [int(row["parameters"]) / 1e6 for row in of_way], marker="osD^vP"[index % 6],
                  label=way, color=COLOURS[index % len(COLOURS)])
    axes.set(xscale="log", yscale="log", xlabel="device budget (MiB)", ylabel="million parameters")
    budgets = sorted({int(row["device_bytes"]) // MIB for row in rows})
    axes.set_xticks(budgets, [str(budget) for budget in budgets], minor=False)
    axes.minorticks_off()
    figure.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    return figure_of(svg_of(figure), "The largest model of each device budget, by plans alone")


def chart_of_pytorch(rows, cases):
    figure, axes = pyplot.subplots(figsize=(9, 0.28 * (len(rows) * 10 // 8) + 1), layout="constrained")
    labels, tensors = [], []
    for model in dict.fromkeys(row["model"] for row in rows):
        for row in filter(plain, cases):
            if row["model"] == model and row["budget"] in ("resident", "1/4"):
                labels.append(f"{model}, Strata {row['budget']}")
                tensors.append(sum(int(row[f"measured_{part}_bytes"]) for part in ("device", "host", "scratch")) / MIB)
        for row in rows:
            if row["model"] == model:
                labels.append(f"{model}, {row['way']} {row['precision']}" + (f" × {row['ranks']}" if row["ranks"] != "1" else ""))
                tensors.append(int(row["allocated_peak_bytes"]) / MIB)
    axes.scatter(tensors, labels, color=[COLOURS[0] if "Strata" in label else COLOURS[1] for label in labels])
    axes.grid(alpha=0.3)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="MiB, by the program's own counter, all processes")
    return figure_of(svg_of(figure), "Peak by each program's own counter: Strata's tiers and scratch, and PyTorch's allocator")


def table_of(rows, caption):
    """Bytes as MiB."""
    cell = lambda key, value: f"{int(value) / MIB:.1f}" if key.endswith("_bytes") else html.escape(value)
    head = "".join(f'<th scope="col">{html.escape(key.replace("_bytes", "_MiB").replace("_", " "))}</th>' for key in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{cell(key, value)}</td>" for key, value in row.items()) + "</tr>" for row in rows)
    return f'<div class="wide" tabindex="0"><table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def write(folder):
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "memory", "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
                            "xtick.color": INK, "ytick.color": INK, "font.family": "sans-serif"})
    cases, largest, pytorch, estimates = (rows_of(folder, name) for name in ("cases", "largest", "pytorch", "estimates"))
    parts = []
    if cases:
        parts.append(chart_of_budgets(cases, folder / "budgets.svg"))
    if largest:
        parts.append(chart_of_largest(largest))
    if pytorch:
        parts.append(chart_of_pytorch(pytorch, cases))
    for rows, caption in ((cases, "Runs (sums over ranks)"), (largest, "Largest models"), (pytorch, "PyTorch and DeepSpeed (sums over processes)"),
                          (estimates, "Estimators, and what their own program took by the allocator's counter")):
        if rows:
            parts.append(table_of(rows, caption))
    page = ('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>Memory of runs</title><style>{STYLE}</style></head><body><h1>Memory of runs</h1>{''.join(parts)}</body></html>")
    (folder / "page.html").write_text(page)
