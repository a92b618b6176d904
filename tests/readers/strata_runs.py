"""Runs the strata program on small models, in a folder that goes when the object does."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("STRATA_PROGRAM", str(ROOT / "build/strata"))
SECONDS = 120  # for what takes a moment

RUN_FILE = """
model:
  architecture: llama
  config: {num_hidden_layers: 3, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2,
           intermediate_size: 48, vocab_size: 256}
data: {path: corpus.txt, sequence_length: 24, validation_fraction: 0.1}
train: {steps: 12, batch: 4, microbatch: 2, seed: 3, precision: bf16, validate_every: 4}
optimizer: {lr: 1e-2}
memory: {device: 192KiB, host: 64MiB}
"""
# A step takes tens of milliseconds, so that a run can be met on its way.
SLOWLY = ["device.link.h2d=2MB/s"]


class Runs:
    def __init__(self):
        self.holder = tempfile.TemporaryDirectory(prefix="strata-test-")
        self.folder = pathlib.Path(self.holder.name)
        (self.folder / "corpus.txt").write_text("".join(f"line {i * i} of a small text, {i % 7} words long\n"
                                                        for i in range(400)))
        (self.folder / "run.yaml").write_text(RUN_FILE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.holder.cleanup()

    def path(self, name):
        return self.folder / name

    def start(self, *words, settings=()):
        command = [PROGRAM, *words]
        for setting in settings:
            command += ["--set", setting]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words, settings=(), status=0):
        process = self.start(*words, settings=settings)
        _, said = process.communicate(timeout=SECONDS)
        assert process.returncode == status, f"{' '.join(process.args)}: exit status {process.returncode}: {said}"
        return said

    def end(self, process, number):
        """Sends a signal and waits."""
        process.send_signal(number)
        process.communicate(timeout=SECONDS)
        assert process.returncode == (-number if number == signal.SIGKILL else 1), process.returncode

    def json(self, name):
        return json.loads(self.path(name).read_text())

    def metrics_lines(self, name):
        return self.path(name).read_text().splitlines() if self.path(name).exists() else []

    def metrics(self, name):
        """By step, what report.metrics says of it last: of steps, and of validations."""
        steps, validations = {}, {}
        for line in self.metrics_lines(name):
            values = json.loads(line)
            of_kind = validations if "validation_loss" in values else steps
            of_kind[values.pop("step")] = values
        return steps, validations

    def start_and_wait(self, name, steps, *words, settings=()):
        """Starts the program and returns when report.metrics has `steps` more steps."""
        told = len(self.metrics_lines(name))
        process = self.start(*words, settings=settings)
        until = time.monotonic() + SECONDS
        while sum('"loss"' in line for line in self.metrics_lines(name)[told:]) < steps:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < until, f"{steps} steps did not come in {SECONDS} seconds"
            time.sleep(0.01)
        return process
