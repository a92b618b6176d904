#!/usr/bin/env python3
"""Compares bench_chat_template with the PyPI package transformers:

    compare_templates.py BENCH_CHAT_TEMPLATE CONVERSATIONS SEED TEMPLATE.jinja...

Renders CONVERSATIONS random conversations with every template, and takes what is trained of each. Templates are found
in the source package of llama-cpp-python (vendor/llama.cpp/models/templates) and in the packages trl and axolotl, for
instance. Prints what differs, and for each reason how many templates were refused; exit status 1 if anything differs."""
import collections
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import originals  # noqa: E402  pylint: disable=wrong-import-position
from conversations import conversation  # noqa: E402  pylint: disable=wrong-import-position

UNSUPPORTED = re.compile(r"not supported|is not expected in a tag|is here where")


def results_of(program, cases):
    with tempfile.TemporaryDirectory() as folder:
        given, results = pathlib.Path(folder, "cases"), pathlib.Path(folder, "results")
        given.write_text("".join(json.dumps(case) + "\n" for case in cases))
        said = subprocess.run([program, given, results], capture_output=True, text=True, check=True).stdout.strip()
        print(said, flush=True)
        return [json.loads(line) for line in results.read_text().splitlines()]


def differ(ours, theirs):
    if "error" in ours or "error" in theirs:
        return ("error" in ours) != ("error" in theirs)
    return ours != theirs


def first_difference(ours, theirs):
    if "error" in ours or "error" in theirs or ours["text"] == theirs["text"]:
        return f"ours {str(ours)[-300:]}\n    theirs {str(theirs)[-300:]}"
    at = next((i for i, pair in enumerate(zip(ours["text"], theirs["text"])) if pair[0] != pair[1]),
              min(len(ours["text"]), len(theirs["text"])))
    return f"at {at} ours {ours['text'][max(0, at - 40):at + 60]!r}\n    theirs {theirs['text'][max(0, at - 40):at + 60]!r}"


def compare(program, count, seed, *files):
    rng = random.Random(int(seed))
    conversations = [conversation(rng) for _ in range(int(count))]
    cases, expected, of_template = [], [], []
    for file in files:
        template = pathlib.Path(file).read_text()
        for case in conversations:
            trains = not case.get("add_generation_prompt", False)
            cases.append({"template": template, "special_tokens": originals.SPECIAL_TOKENS, "trains": trains, **case})
            expected.append((originals.trained if trains else originals.render)(template, case))
            of_template.append(file)
    results = results_of(program, cases)
    wrong, refused, errors = collections.defaultdict(list), collections.defaultdict(set), 0
    for file, case, ours, theirs in zip(of_template, cases, results, expected):
        errors += "error" in ours and "error" in theirs
        if "error" in ours and UNSUPPORTED.search(ours["error"]):
            refused[ours["error"]].add(file)
        if differ(ours, theirs):
            wrong[file].append((case, ours, theirs))
    for file, cases_of in wrong.items():
        case, ours, theirs = min(cases_of, key=lambda each: len(json.dumps(each[0])))
        print(f"{file}: {len(cases_of)} differ\n    {json.dumps({k: v for k, v in case.items() if k != 'template'}, ensure_ascii=False)[:700]}"
              f"\n    {first_difference(ours, theirs)}")
    print(f"{len(files)} templates, {len(cases)} renderings of {len(conversations)} conversations: "
          f"{sum(map(len, wrong.values()))} differ, {errors} are errors in both")
    for reason, by in refused.items():
        print(f"refused by {len(by)}: {reason}: {sorted(pathlib.Path(file).name for file in by)[:8]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(compare(*sys.argv[1:]))
