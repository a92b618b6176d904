#!/usr/bin/env python3
"""Trains a run file with state on drives and shows what the drive and the cores do in its last whole step, second by second.

    bench/idle.py bench/runs/gpt2-355m-fp32.yaml --folder /scratch --set train.steps=4 memory.host=3GiB optimizer.clip_norm=1 [--limit 250MB/s]

With --limit the drive is busy for as long as the bytes that the process moves take at that rate. Without --limit it is busy for as long
as the system says that operations are in flight on the folder's disk (/proc/diskstats). Cores are those of the whole machine (/proc/stat), so nothing else
should run. A step ends when its line comes to the metrics. Needs nothing but Python's standard library.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_file")
    parser.add_argument("--folder", required=True, help="on the drive to use")
    parser.add_argument("--limit", help="fastest reading and writing of the drive, as 250MB/s")
    parser.add_argument("--set", nargs="*", default=[], help="KEY=VALUE")
    parser.add_argument("--strata", default=str(ROOT / "build/strata"))
    return parser.parse_args()


def cores():
    """Seconds that all cores together were busy, and their number."""
    lines = pathlib.Path("/proc/stat").read_text().splitlines()
    user, nice, system = (int(word) for word in lines[0].split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK"), sum(line.startswith("cpu") for line in lines) - 1


def disk_seconds(folder):
    """Seconds in which operations were in flight on its disk."""
    device = os.stat(folder).st_dev
    for line in pathlib.Path("/proc/diskstats").read_text().splitlines():
        words = line.split()
        if (int(words[0]), int(words[1])) == (os.major(device), os.minor(device)):
            return int(words[12]) / 1e3
    sys.exit(f"{folder} is on no disk of /proc/diskstats")


def moved(process):
    """Bytes that it has read from and written to drives."""
    text = pathlib.Path(f"/proc/{process.pid}/io").read_text()
    return [int(re.search(rf"^{key}: (\d+)$", text, re.MULTILINE)[1]) for key in ("read_bytes", "write_bytes")]


def record(arguments, metrics):
    """The run's report, and a sample a second: time, bytes read, written, busy seconds of disk and cores, steps that have ended."""
    settings = [f"memory.nvme.path={arguments.folder}", f"report.metrics={metrics}", *arguments.set]
    if arguments.limit:
        settings.append(f"memory.nvme.limit={{read: {arguments.limit}, write: {arguments.limit}}}")
    command = [arguments.strata, "train", arguments.run_file, "--set", "checkpoint=none", "--json", "-"]
    process = subprocess.Popen(command + [word for each in settings for word in ("--set", each)], stdout=subprocess.PIPE, text=True)
    samples, start = [], time.monotonic()
    while process.poll() is None:
        try:
            sample = [time.monotonic(), *moved(process), disk_seconds(arguments.folder), cores()[0]]
        except OSError:  # it has just ended
            break
        steps = len(metrics.read_text().splitlines()) if metrics.exists() else 0
        samples.append((*sample, steps))
        time.sleep(max(0.0, start + len(samples) - time.monotonic()))
    output = process.communicate()[0]
    if process.returncode != 0:
        sys.exit(process.returncode)
    return json.loads(output), samples


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        report, samples = record(arguments, pathlib.Path(folder) / "metrics")
    rate = None
    if arguments.limit:
        number, unit = re.fullmatch(r"([\d.]+)([kMG]?)B/s", arguments.limit).groups()
        rate = float(number) * UNITS[unit]
    steps = samples[-1][-1]
    step = [sample for sample in samples if sample[-1] == steps - 1]
    step.append(next(sample for sample in samples if sample[-1] == steps))
    count = cores()[1]
    print("| s | read (MB/s) | written (MB/s) | drive idle (s) | cores busy (%) |\n|---|---|---|---|---|")
    sums = [0.0] * 4
    for before, after in zip(step, step[1:]):
        seconds, read, written, disk, busy = (b - a for a, b in zip(before[:5], after[:5]))
        idle = seconds - ((read + written) / rate if rate else disk)
        print(f"| {after[0] - step[0][0]:.0f} | {read / seconds / 1e6:.0f} | {written / seconds / 1e6:.0f} | {idle:.1f} "
              f"| {100 * busy / seconds / count:.0f} |")
        sums = [a + b for a, b in zip(sums, (seconds, idle, busy / count, read + written))]
    print(f"\n{sums[0]:.0f} s sampled: drive idle for {sums[1]:.1f} s, cores for {sums[0] - sums[2]:.1f} s; {sums[3] / 1e9:.2f} GB moved")
    print("seconds of steps:", " ".join(f"{seconds:.2f}" for seconds in report["step_seconds"]),
          f"drain {sum(report['drain_seconds']):.2f} bound {report['bound_seconds']:.2f} by {report['bound_by']} state {report['state_hash']}")


if __name__ == "__main__":
    main()
