#!/usr/bin/env python3
"""Compares bench_chat_template with the PyPI package transformers:

    compare_templates.py conversations BENCH_CHAT_TEMPLATE COUNT SEED TEMPLATE.jinja...
    compare_templates.py features BENCH_CHAT_TEMPLATE COUNT SEED

conversations renders COUNT random conversations with every template, and takes what is trained of each. Templates are
found in the source package of llama-cpp-python (vendor/llama.cpp/models/templates) and in the packages trl and axolotl,
for instance. features renders COUNT random small templates. Both print what differs, and what was refused as not
supported; exit status 1 if anything differs."""
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
import random_templates  # noqa: E402  pylint: disable=wrong-import-position
from conversations import conversation  # noqa: E402  pylint: disable=wrong-import-position

UNSUPPORTED = re.compile(r"line \d+: (.*(not supported|is not expected in a tag|is here where|more than \d+|too large).*)")


def results_of(program, cases):
    with tempfile.TemporaryDirectory() as folder:
        given, results = pathlib.Path(folder, "cases"), pathlib.Path(folder, "results")
        given.write_text("".join(json.dumps(case) + "\n" for case in cases))
        said = subprocess.run([program, given, results], capture_output=True, text=True, check=True).stdout.strip()
        print(said, flush=True)
        return [json.loads(line) for line in results.read_text().splitlines()]


def differ(ours, theirs):
    if "error" in ours and "error" in theirs:  # of the same words, if they are the template's
        kind, _, message = theirs["error"].partition(": ")
        return kind == "TemplateError" and not ours["error"].endswith(message)
    if None in theirs.get("spans", []):  # prefixes do not tell all of them
        return "error" not in ours and (ours["text"] != theirs["text"] or any(
            other is not None and own != other for own, other in zip(ours["spans"], theirs["spans"])))
    return ours != theirs


def first_difference(ours, theirs):
    if "error" in ours or "error" in theirs or ours["text"] == theirs["text"]:
        return f"ours {str(ours)[-300:]}\n    theirs {str(theirs)[-300:]}"
    at = next((i for i, pair in enumerate(zip(ours["text"], theirs["text"])) if pair[0] != pair[1]),
              min(len(ours["text"]), len(theirs["text"])))
    return f"at {at} ours {ours['text'][max(0, at - 40):at + 60]!r}\n    theirs {theirs['text'][max(0, at - 40):at + 60]!r}"


def unsupported(result):
    found = UNSUPPORTED.search(result.get("error", ""))
    return found.group(1) if found else None


def compare(program, cases, expected, names):
    """Prints the smallest difference of each name."""
    results, wrong, refused = results_of(program, cases), collections.defaultdict(list), collections.defaultdict(set)
    for name, case, ours, theirs in zip(names, cases, results, expected):
        if unsupported(ours) and "error" not in theirs:
            refused[unsupported(ours)].add(name)
        elif differ(ours, theirs):
            wrong[name].append((case, ours, theirs))
    for name, several in wrong.items():
        case, ours, theirs = min(several, key=lambda each: len(json.dumps(each[0])))
        shown = {key: value for key, value in case.items() if key not in ("template", "special_tokens")}
        print(f"{name}: {len(several)} differ\n    {json.dumps(shown, ensure_ascii=False)[:700]}\n    {first_difference(ours, theirs)}")
    errors = sum("error" in theirs for theirs in expected)
    print(f"{len(cases)} renderings: {sum(map(len, wrong.values()))} differ, {errors} are errors there")
    for reason, by in refused.items():
        print(f"refused {len(by)}: {reason}: {sorted(by)[:5]}")
    return bool(wrong)


def conversations(program, count, seed, *files):
    rng, differs = random.Random(int(seed)), False
    talks = [conversation(rng) for _ in range(int(count))]
    for trains in (False, True):
        cases, expected, names = [], [], []
        for file in files:
            template = pathlib.Path(file).read_text()
            for talk in talks:
                if trains and talk.get("add_generation_prompt"):
                    continue
                cases.append({"template": template, "special_tokens": originals.SPECIAL_TOKENS, "trains": trains, **talk})
                expected.append((originals.trained if trains else originals.render)(template, talk))
                names.append("/".join(pathlib.Path(file).parts[-2:]))
        print(f"what is trained, {len(files)} templates:" if trains else f"texts and tags, {len(files)} templates:")
        differs = compare(program, cases, expected, names) or differs
    return differs


def features(program, count, seed):
    rng = random.Random(int(seed))
    cases = [{"template": random_templates.template(rng), "messages": [], "special_tokens": {}, "variables": random_templates.VARIABLES}
             for _ in range(int(count))]
    expected = [originals.render(case["template"], case) for case in cases]
    # Addresses of objects are nobody's to compare.
    kept = [i for i, each in enumerate(expected) if " at 0x" not in each.get("text", "")]
    return compare(program, [cases[i] for i in kept], [expected[i] for i in kept], [cases[i]["template"] for i in kept])


if __name__ == "__main__":
    sys.exit({"conversations": conversations, "features": features}[sys.argv[1]](*sys.argv[2:]))
