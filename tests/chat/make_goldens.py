#!/usr/bin/env python3
"""Makes tests/chat/goldens with the PyPI packages transformers 5.24.0 and jinja2 3.1.6: make_goldens.py

Has transformers render random conversations by the templates in templates/, with the bytes that `generation` tags mark
and those that prefixes tell. Has it render small templates for single features, too: those of features.py, and random
ones."""
import json
import os
import pathlib
import random

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import originals  # noqa: E402  pylint: disable=wrong-import-position
import random_templates  # noqa: E402  pylint: disable=wrong-import-position
from conversations import TOOLS, conversation  # noqa: E402  pylint: disable=wrong-import-position
from features import FEATURES  # noqa: E402  pylint: disable=wrong-import-position

HERE = pathlib.Path(__file__).parent
GOLDENS = HERE / "goldens"
CONVERSATIONS_OF_TEMPLATE = 14
RANDOM_TEMPLATES = 700


def write(name, values):
    (GOLDENS / name).write_text("[\n" + ",\n".join(json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values) + "\n]\n")


def without_type(result):
    """The message of raise_exception, which is ours, too; of other errors only that they are ones."""
    kind, _, message = result.get("error", "").partition(": ")
    return result if "error" not in result else {"error": message if kind == "TemplateError" else ""}


def cases_of(template, rng):
    cases = []
    while len(cases) < CONVERSATIONS_OF_TEMPLATE:
        case = conversation(rng)
        expected = without_type(originals.render(template, case))
        trained = without_type(originals.trained(template, case)) if not case.get("add_generation_prompt") else {}
        if "error" in expected and rng.random() < 0.7:
            continue
        if "tools" in case:  # by their numbers: they are long
            case["tools"] = [TOOLS.index(tool) for tool in case["tools"]]
        cases.append({**case, "expected": expected, "trained": trained.get("spans")})
    return cases


def random_cases(rng):
    cases, errors = [], 0
    while len(cases) < RANDOM_TEMPLATES:
        template = random_templates.template(rng)
        expected = without_type(originals.render(template, {"messages": [], "special_tokens": {}, "variables": random_templates.VARIABLES}))
        text = expected.get("text", "")
        # Addresses, numbers beyond 64 bits, and identity, which is not supported of all values.
        if " at 0x" in text or "big * big" in template or "sameas" in template or len(text) > 400:
            continue
        errors += "error" in expected
        if "error" not in expected or errors < len(cases) / 6:
            cases.append([template, expected.get("text")])
    return cases


def main():
    GOLDENS.mkdir(exist_ok=True)
    rng = random.Random(7)
    write("tools.json", TOOLS)
    for file in sorted((HERE / "templates").glob("*.jinja")):
        write(f"{file.stem}.json", cases_of(file.read_text(), rng))
    write("random.json", [random_templates.VARIABLES] + random_cases(rng))
    write("features.json", [[template, variables, without_type(originals.render(template, {"messages": [], "special_tokens": {}, "variables": variables}))]
                            for template, variables in FEATURES])


if __name__ == "__main__":
    main()
