#!/usr/bin/env python3
"""Lists layouts of a run that together have every combination of any two or any three of their choices, and shows what their runs gave.

    tests/layouts/cover.py            writes pairs.txt and triples.txt beside this script
    tests/layouts/cover.py --show RESULTS.json...   prints the table of tests that ran a list, and what it says of equal bits

tests/execute/layouts_test.cpp runs pairs.txt; with STRATA_TEST_LAYOUTS=triples.txt in its environment it runs that. RESULTS.json are what
it leaves with --gtest_output=json:RESULTS.json. Needs nothing but Python's standard library.
"""

import argparse
import heapq
import itertools
import json
import math
import pathlib

CHOICES = {
    "data": (1, 2),
    "tensor": (1, 2, 4),
    "pipeline": (1, 2, 4),
    "context": (1, 2),
    "zero_stage": (0, 1, 2, 3),
    "schedule": ("gpipe", "1f1b", "interleaved", "zero_bubble", "breadth_first"),
    "placement": ("resident", "host", "nvme"),
    "recompute": ("full", "none", "auto"),
    "packing": ("none", "documents"),
    "adapters": ("none", "lora", "dora"),
    "dropout": ("none", "some"),
    "frozen_as": ("precision", "nf4"),
    "model": ("llama", "gpt2", "qwen3_moe"),
}
FOLDER = pathlib.Path(__file__).parent


def ranks(layout):
    return math.prod(layout[axis] for axis in ("data", "tensor", "pipeline", "context"))


def is_legal(layout):
    """What one rank or one stage cannot show stands there once, with its default."""
    shares_out = layout["data"] * layout["context"] > 1 or layout["zero_stage"] == 3
    has_schedule = layout["pipeline"] > 1 or layout["schedule"] == "1f1b"
    # The auxiliary loss of routing counts every token, and documents' last ones have no target.
    counts_targets = layout["packing"] == "none" or layout["model"] != "qwen3_moe"
    # Branches of GPT-2 have it, and adapters.
    can_drop = layout["dropout"] == "none" or layout["model"] == "gpt2" or layout["adapters"] == "lora"
    has_frozen = layout["adapters"] != "none" or layout["frozen_as"] == "precision"
    return ranks(layout) <= 8 and shares_out and has_schedule and counts_targets and can_drop and has_frozen


def legal_layouts():
    every = (dict(zip(CHOICES, values)) for values in itertools.product(*CHOICES.values()))
    return sorted(filter(is_legal, every), key=ranks)


def combinations(layout, strength):
    return set(itertools.combinations(layout.items(), strength))


def cover(layouts, strength):
    """The layout with the most combinations that none before it has, until there are none; of equal ones that of the fewest ranks."""
    missing = set().union(*(combinations(layout, strength) for layout in layouts))
    # What a layout would add only shrinks, so one that still adds what it did when it was last asked is the best.
    queue = [(-math.comb(len(CHOICES), strength), number) for number in range(len(layouts))]
    chosen = []
    while missing:
        promised, number = heapq.heappop(queue)
        new = combinations(layouts[number], strength) & missing
        if queue and (-len(new), number) > queue[0]:
            heapq.heappush(queue, (-len(new), number))
        else:
            chosen.append(layouts[number])
            missing -= new
    return chosen


def write(name, layouts, strength):
    chosen = cover(layouts, strength)
    rows = [tuple(CHOICES)] + [tuple(map(str, layout.values())) for layout in chosen]
    (FOLDER / name).write_text("".join(" ".join(row) + "\n" for row in rows))
    covered = set().union(*(combinations(layout, strength) for layout in chosen))
    print(f"{name}: {len(chosen)} of {len(layouts)} layouts have all {len(covered)} combinations of {strength} choices")


def runs_of(files):
    for file in files:
        for suite in json.loads(pathlib.Path(file).read_text())["testsuites"]:
            for run in suite["testsuite"]:
                if "state_hash" in run:
                    yield run


def show(files):
    runs = list(runs_of(files))
    print("| " + " | ".join(CHOICES) + " | gradients | of | losses | state hash |")
    print("|" + "--|" * len(CHOICES) + "--:|--|--:|--|")
    hashes = {}
    for run in runs:
        print("| " + " | ".join(run[axis] for axis in CHOICES) +
              f" | {float(run['gradients']):.1e} | {run['farthest']} | {float(run['losses']):.1e} | {run['state_hash']} |")
        layout = tuple(run[axis] for axis in ("model", "packing", "adapters", "dropout", "frozen_as", "data", "tensor", "context", "pipeline"))
        hashes.setdefault(layout, []).append(run["state_hash"])
    several = [found for found in hashes.values() if len(found) > 1]
    differing = [layout for layout, found in hashes.items() if len(set(found)) > 1]
    print(f"\n{len(runs)} runs; largest differences: gradients {max(float(run['gradients']) for run in runs):.1e}, "
          f"losses {max(float(run['losses']) for run in runs):.1e}")
    print(f"{len(several)} meshes and models have several runs, {sum(map(len, several))} in all; their hashes differ in {len(differing)}")
    for layout in differing:
        print("   ", *layout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", nargs="+", metavar="RESULTS.json")
    arguments = parser.parse_args()
    if arguments.show:
        show(arguments.show)
        return
    layouts = legal_layouts()
    write("pairs.txt", layouts, 2)
    write("triples.txt", layouts, 3)


if __name__ == "__main__":
    main()
