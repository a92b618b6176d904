"""Runs of several ranks for the benchmarks beside this file: a run file as a Python value in, the report out."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def launch(ranks):
    """The words before a program that start it as `ranks` ranks, and the environment that they need."""
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return ["mpirun", "--oversubscribe", "-n", str(ranks)], os.environ | as_root


def train(ranks, run, strata=ROOT / "build/strata"):
    """The report of a run that must succeed."""
    with tempfile.TemporaryDirectory() as folder:
        file, report = pathlib.Path(folder) / "run.yaml", pathlib.Path(folder) / "report.json"
        file.write_text(json.dumps(run))
        words, environment = launch(ranks)
        words += [str(strata), "train", str(file), "--set", "checkpoint=none", "--json", str(report)]
        process = subprocess.run(words, capture_output=True, text=True, env=environment)
        if process.returncode != 0:
            sys.exit(process.stderr)
        return json.loads(report.read_text())


def step_seconds(report):
    """The median of the steps after the first."""
    return statistics.median(report["step_seconds"][1:])
