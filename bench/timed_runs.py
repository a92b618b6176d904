"""Trains for benchmarks that time steps, with nothing beside the run."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import mpirun


def parse(parser):
    """Adds the arguments that such benchmarks share, and reads the command line."""
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=6, help="of each run; the first two are not timed")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--strata", default=str(pathlib.Path(__file__).resolve().parent.parent / "build/strata"))
    arguments = parser.parse_args()
    if arguments.steps < 3:
        parser.error("--steps: 3 or more, the first two are not timed")
    arguments.out.mkdir(parents=True, exist_ok=True)
    return arguments


def report_of(strata, run, ranks):
    """The report of a run that must succeed."""
    words, environment = mpirun.launch(ranks) if ranks > 1 else ([], os.environ)
    with tempfile.TemporaryDirectory() as folder:
        file, report = pathlib.Path(folder) / "run.yaml", pathlib.Path(folder) / "report.json"
        file.write_text(json.dumps(run))
        process = subprocess.run([*words, strata, "train", file, "--set", "checkpoint=none", "--json", report], capture_output=True, text=True, env=environment)
        if process.returncode != 0:
            sys.exit(f"{process.stderr}\n{json.dumps(run)}")
        return json.loads(report.read_text())


def step_seconds(strata, run, ranks):
    """The median of the steps after the second."""
    return statistics.median(report_of(strata, run, ranks)["step_seconds"][2:])
