"""Plans and trains for bench/memory.py: a run file as a Python value in; out what strata reports, and what the kernel says that its
processes held."""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import mpirun
from process_memory import peak_bytes, reset_peak

TIERS = ("device", "host", "nvme")


class Refused(Exception):
    """A budget is too small."""

    def __init__(self, message):
        super().__init__(message)
        smallest = re.search(r"memory\.device: .*the smallest that works is .*\((\d+) bytes\)", message)
        self.smallest_device_bytes = int(smallest.group(1)) if smallest else None


def plan(strata, run):
    """The report of `strata plan`, of one rank; Refused if a budget is too small."""
    with tempfile.TemporaryDirectory() as folder:
        file, report = write(folder, run)
        process = subprocess.run([strata, "plan", file, "--json", report], capture_output=True, text=True)
        if process.returncode == 2 and "strata: memory." in process.stderr:
            raise Refused(process.stderr)
        if process.returncode != 0:
            sys.exit(f"{process.stderr}\n{json.dumps(run)}")
        return json.loads(pathlib.Path(report).read_text())


def train(strata, run, ranks):
    """The report of a run that must succeed. It gets "rss_bytes", the largest resident memory that its processes had: from the first
    step's end to the last one's, as a sum ("training") and of each ("ranks"), and over the whole run ("whole")."""
    words, environment = mpirun.launch(ranks) if ranks > 1 else ([], os.environ)
    with tempfile.TemporaryDirectory() as folder:
        file, report = write(folder, run)
        process = subprocess.Popen([*words, strata, "train", file, "--set", "checkpoint=none", "--json", report], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, env=environment)
        output = Output(process.stderr, run["train"]["steps"])
        rss = watch(process, output, pathlib.Path(strata).resolve())
        if process.returncode != 0:
            sys.exit(f"{output.text()}\n{json.dumps(run)}")
        return json.loads(pathlib.Path(report).read_text()) | {"rss_bytes": rss}


def seconds_of(report, untimed=1):
    """Of a step, by those after the first ones; steps overlap, so what is left behind the last one counts."""
    return statistics.mean(report["step_seconds"][untimed:]) + sum(report["drain_seconds"]) / len(report["step_seconds"])


def write(folder, run):
    file, report = pathlib.Path(folder) / "run.yaml", pathlib.Path(folder) / "report.json"
    file.write_text(json.dumps(run))
    return str(file), str(report)


class Output:
    """Reads what a run prints, on a thread of its own, and tells when the first step and the last one have ended."""

    def __init__(self, stream, steps):
        self.lines, self.first, self.last = [], threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.read, args=(stream, steps))
        self.thread.start()

    def read(self, stream, steps):
        for line in stream:
            self.lines.append(line)
            if line.startswith(f"step 1/{steps} "):
                self.first.set()
            if line.startswith(f"step {steps}/{steps} "):
                self.last.set()

    def text(self):
        self.thread.join()
        return "".join(self.lines)


def watch(process, output, program):
    """Until the process ends: VmHWM, the kernel's own peak of a process, of all that run the program under it. It is set back when
    the first step ends, and what follows the last step, which hashes and saves state, does not count as training."""
    whole, training, is_reset = {}, {}, False
    while process.poll() is None:
        for one in descendants(process.pid):
            try:
                if pathlib.Path(f"/proc/{one}/exe").resolve() != program:
                    continue
                peak = peak_bytes(one)
                whole[one] = max(peak, whole.get(one, 0))
                if is_reset and not output.last.is_set():
                    training[one] = peak
                elif output.first.is_set() and one not in training:
                    reset_peak(one)
                    training[one] = 0
            except (OSError, StopIteration):  # it has ended
                continue
        is_reset = output.first.is_set() and training.keys() == whole.keys()
        time.sleep(0.005)
    process.wait()
    if process.returncode == 0 and 0 in (training.values() or [0]):
        sys.exit("the run was too short to see what memory its steps have: raise --steps")
    return {"whole": sum(whole.values()), "training": sum(training.values()), "ranks": list(training.values())}


def descendants(process):
    found = [process]
    for one in found:
        for children in pathlib.Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:
                continue
    return found
