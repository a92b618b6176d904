"""What the comparisons of two builds of strata beside this file share: starting a build, and telling two answers apart."""

import itertools
import json
import re
import subprocess

# What a long command says meanwhile, by the clock: "1m30s  planning the run".
PROGRESS = re.compile(r"^(?:\d+h)?(?:\d+m)?\d+s  .*\n", re.MULTILINE)


def add_builds(parser):
    """Adds the two programs to a command line: OLD NEW."""
    parser.add_argument("old")
    parser.add_argument("new")


def words_of(settings):
    """Settings such as train.steps=2 as words of a command line."""
    return [word for setting in settings for word in ("--set", setting)]


def split_plan(text):
    """The program and the report in what `strata plan --json - --program` prints."""
    start = 0 if text[0] == "{" else text.index("\n{") + 1
    return text[:start], json.loads(text[start:])


def run_plan(strata, run_file, settings=(), folder=None):
    """The process of `strata plan` after it ended; split_plan() reads what it printed."""
    words = [strata, "plan", str(run_file), "--json", "-", "--program", *words_of(settings)]
    process = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
    process.stderr = process.stderr.replace(str(strata), "strata")  # a refusal names the program as it was called
    process.stderr = PROGRESS.sub("", process.stderr)
    return process


def differences(old, new, path=""):
    """A (path, old, new) for each place where two JSON values differ; what only one of them has is "absent" in the other."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key, "absent"), new.get(key, "absent"), f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list):
        for index, pair in enumerate(itertools.zip_longest(old, new, fillvalue="absent")):
            yield from differences(*pair, f"{path}/{index}")
    elif type(old) is not type(new) or old != new:
        yield path, old, new
