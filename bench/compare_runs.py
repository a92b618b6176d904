#!/usr/bin/env python3
"""Trains small run files with two builds of strata and compares everything that they answer and write.

    bench/compare_runs.py OLD NEW [--only TEXT] [--jobs 2] [--may-differ NAME...] [--set-new KEY=VALUE...]

run_cases.py has the table of what is covered. Both builds plan (with the program), explain and train each case in a folder of the same
path. Equal must be: printed texts, JSON reports with losses and state hashes, metrics, and the bytes of checkpoints and exported models.
Only what a clock or other processes give may differ: see the constants below. --may-differ names keys of reports that are meant to
change. --set-new changes the new build's run files, to see that a difference is found. The exit status is 1 if anything differs or a
case does not run. Needs nothing but Python's standard library, and mpirun.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import mpirun
import run_cases
import two_builds

# What differs between two runs of one build. That keys are there, and how many values they have, is compared.
# In each answer: the rest of the machine.
CHANGING_WORDS = re.compile(r"[\d.]+ [KMGT]iB are free|io_uring|threads with pread and pwrite")
# Of commands that compute: what a clock gives. The clock also chooses the steps with a line.
MEASURED_KEYS = {"step_seconds", "drain_seconds", "seconds", "prompt_seconds", "token_seconds", "busy_seconds", "measured_seconds",
                 "tokens_per_second", "mfu", "hfu", "idle_share", "bound_seconds", "bound_by", "machine", "machine_measured"}
MEASURED_WORDS = re.compile(r"^(?:step +\d+/\d+  |\d+ models: ).*\n|[\d.,]+ tokens/s|MFU [\d.]+ %|[\d.,]+ m?s per step|computing  .* idle"
                            r"|in [\d.]+ s \([\d.,]+/s\)|limited by [\w ]+|at best .*|^all models \S+s", re.MULTILINE)
# Of such commands without a profile of the machine: what is predicted by measured rates.
PREDICTED_KEYS = {"simulated_seconds"}
PREDICTED_WORDS = re.compile(r"predicted [\d.]+ \w+")


def shape_of(value):
    """A measured value's keys and lengths."""
    if isinstance(value, dict):
        return {key: shape_of(part) for key, part in value.items()}
    return [shape_of(part) for part in value] if isinstance(value, list) else "measured"


class Reading:
    """Reads answers of a run file without what may differ between two runs of one build."""

    def __init__(self, command, run, may_differ):
        computes = command not in ("plan", "explain")
        predicts = computes and "machine" not in run.get("plan", {})
        self.keys = (MEASURED_KEYS if computes else set()) | (PREDICTED_KEYS if predicts else set())
        self.words = [CHANGING_WORDS, *[MEASURED_WORDS] * computes, *[PREDICTED_WORDS] * predicts]
        self.may_differ = may_differ

    def text(self, text):
        for words in self.words:
            text = words.sub("MEASURED", text)
        return text

    def report(self, value):
        if isinstance(value, dict):
            return {key: shape_of(part) if key in self.keys else self.report(part)
                    for key, part in value.items() if key not in self.may_differ}
        if isinstance(value, list):
            return [self.report(part) for part in value]
        return self.text(value) if isinstance(value, str) else value

    def file(self, path):
        if path.suffix == ".json":
            return self.report(json.loads(path.read_text()))
        if path.suffix == ".jsonl":
            return [self.report(json.loads(line)) for line in path.read_text().splitlines()]
        return hashlib.sha256(path.read_bytes()).hexdigest()


def changed_files(folder, seen):
    """Files that were not yet written at their times when `seen` was taken; not those of drives, which are the run's own memory."""
    files = {path for path in folder.rglob("*") if path.is_file() and "drive" not in path.parts}
    return {(path, path.stat().st_mtime_ns) for path in files} - seen


def answers_of(strata, case, inputs, folder, changes, may_differ):
    """All that a build answers and writes, by name; and its report of the training."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(inputs, folder)
    (folder / "strata").symlink_to(strata)
    run, answers = run_cases.run_file_of(case), {}
    (folder / "run.yaml").write_text(json.dumps(run, indent=1))
    seen = changed_files(folder, set())
    for words, ranks in run_cases.commands_of(case):
        before, environment = mpirun.launch(ranks) if ranks > 1 else ([], os.environ)
        settings = two_builds.words_of(changes) if "run.yaml" in words else []
        ended = subprocess.run([*before, "./strata", *words, *settings], cwd=folder, env=environment, capture_output=True, text=True,
                               timeout=120, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: status {ended.returncode}: {ended.stderr.strip()}")
        reading = Reading(words[0], run, may_differ)
        answers[" ".join(words)] = {"out": reading.text(ended.stdout).splitlines(), "err": reading.text(ended.stderr).splitlines()}
        written = changed_files(folder, seen)
        answers |= {f"{' '.join(words)} {path.relative_to(folder)}": reading.file(path) for path, _ in sorted(written)}
        seen |= written
    results = results_of(json.loads((folder / "report.json").read_text()))
    shutil.rmtree(folder)
    return answers, results


def results_of(report):
    """State hashes and losses of all models of a run."""
    models = report.get("models", [report])
    losses = [model["losses" if "losses" in model else "loss"] for model in models]
    return ", ".join(f"{model['state_hash']} losses {' '.join(f'{loss:.6g}' for loss in steps)}" for model, steps in zip(models, losses))


def compare(case, number, arguments, inputs, scratch):
    """Whether both builds agree; prints a line for the case and one for each place that differs."""
    began, folder = time.monotonic(), scratch / f"case-{number}"
    try:
        old, results = answers_of(arguments.old, case, inputs, folder, [], arguments.may_differ)
        new, _ = answers_of(arguments.new, case, inputs, folder, arguments.set_new, arguments.may_differ)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"{case.name}: does not run: {error}", flush=True)
        return False
    found = list(two_builds.differences(old, new))
    verdict = f"{len(found)} differences" if found else f"equal, {results}"
    lines = [f"{case.name}: {verdict} ({case.ranks} ranks, {time.monotonic() - began:.1f} s)"]
    lines += [f"  {path}: {before} -> {after}" for path, before, after in found]
    print("\n".join(lines), flush=True)
    return not found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    two_builds.add_builds(parser)
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cases at once")
    parser.add_argument("--may-differ", nargs="*", default=[], metavar="NAME", help="keys of reports that are not compared")
    parser.add_argument("--set-new", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the new build alone")
    arguments = parser.parse_args()
    arguments.old, arguments.new = (pathlib.Path(build).resolve(strict=True) for build in (arguments.old, arguments.new))
    for name, build in (("old", arguments.old), ("new", arguments.new)):
        version = subprocess.run([build, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
        print(f"{name}: {build}, {version}", flush=True)
    chosen = [(number, case) for number, case in enumerate(run_cases.CASES) if arguments.only in case.name]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        scratch = pathlib.Path(scratch)
        inputs = scratch / "inputs"
        inputs.mkdir()
        run_cases.write_inputs(inputs)
        equal = list(pool.map(lambda entry: compare(entry[1], entry[0], arguments, inputs, scratch), chosen))
    print(f"{len(chosen)} cases, seed {run_cases.BASE['train']['seed']}: {equal.count(True)} equal, {equal.count(False)} not; "
          f"{time.monotonic() - began:.0f} s")
    sys.exit(0 if chosen and all(equal) else 1)


if __name__ == "__main__":
    main()
