"""Event files as TensorBoard's own readers see them, held against report.metrics."""
import json
import logging
import os
import signal

import numpy
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.util import tensor_util

from strata_runs import ROOT, SLOWLY, Runs

logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it warns of each time that a run went on
EVERYTHING = event_accumulator.STORE_EVERYTHING_SIZE_GUIDANCE


def scalars(folder):
    """{tag: [(step, value)]} as EventAccumulator has them."""
    reader = event_accumulator.EventAccumulator(str(folder), size_guidance=EVERYTHING).Reload()
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


def scalars_of_server(folder):
    """The same as TensorBoard's server reads them."""
    guidance = {plugin_event_accumulator.TENSORS: 0}
    reader = plugin_event_accumulator.EventAccumulator(str(folder), size_guidance=guidance).Reload()
    return {tag: [(event.step, tensor_util.make_ndarray(event.tensor_proto).item()) for event in reader.Tensors(tag)]
            for tag in reader.Tags()["tensors"]}


def texts(folder):
    """{tag: [(step, text)]} as TensorBoard's server reads them."""
    reader = plugin_event_accumulator.EventAccumulator(str(folder), size_guidance={plugin_event_accumulator.TENSORS: 0}).Reload()
    tags = reader.PluginTagToContent("text")
    return {tag: [(event.step, tensor_util.make_ndarray(event.tensor_proto)[0].decode()) for event in reader.Tensors(tag)]
            for tag in tags}


def fp32(value):
    return float(numpy.float32(value))


def check_curves(folder, steps, validations):
    """Holds all curves of a folder against what report.metrics says."""
    curves = scalars(folder)
    assert curves == scalars_of_server(folder), "TensorBoard's two readers see different curves"
    expected = {"train/validation_loss": [(step, fp32(values["validation_loss"]))
                                          for step, values in sorted(validations.items())]}
    for key in ("loss", "grad_norm", "learning_rate", "seconds", "skipped"):
        expected["train/" + key] = [(step, fp32(values[key])) for step, values in sorted(steps.items())]
    for tag, points in expected.items():
        assert curves[tag] == points, f"{tag}: {curves[tag]} is not {points}"
    for tag, points in curves.items():
        if tag not in expected:
            assert [step for step, _ in points] == sorted(steps), f"{tag}: {points}"
    return curves


def test_curves_have_what_metrics_and_report_say():
    with Runs() as runs:
        runs.run("train", "run.yaml", "--json", "out.json", settings=["report.metrics=m", "report.tensorboard=curves"])
        steps, validations = runs.metrics("m")
        assert len(steps) == 12 and sorted(validations) == [0, 4, 8, 12]
        curves = check_curves(runs.path("curves"), steps, validations)
        report = runs.json("out.json")
        for step, value in curves["train/tokens_per_second"]:
            assert abs(value * steps[step]["seconds"] - 4 * 24) < 1e-3
        # By the time of the latest steps, and by the rate of products that was known at the step.
        flops, seconds = report["flops"]["model"], [values["seconds"] for values in steps.values()]
        most = flops / (min(seconds) * report["machine_measured"]["flops_per_second"])
        least = flops / (sum(seconds) * report["machine"]["flops_per_second"])
        for step, value in curves["train/mfu"]:
            assert least < value <= min(1, most) * (1 + 1e-6), (step, value, least, most)
        for tier in ("device", "host"):
            peaks = {value for _, value in curves[f"memory/{tier}_peak_bytes"]}
            assert peaks == {fp32(report["memory"][tier]["measured_peak_bytes"])}, tier
        for link in ("h2d", "d2h"):
            moved = sum(value for _, value in curves[f"traffic/{link}_bytes"])
            # What a run of steps begins with is in no step's bytes.
            assert 0.9 < moved / report["traffic"][link]["measured_bytes"] <= 1, link


def test_samples_are_texts():
    with Runs() as runs:
        settings = ["report.metrics=m", "report.tensorboard=curves", "checkpoint.path=out",
                    "train.samples={prompts: [line, '7 words'], every: 6, max_length: 20, temperature: 1}"]
        runs.run("train", "run.yaml", settings=settings + ["train.steps=6"])
        runs.run("train", "run.yaml", settings=settings)  # begins with samples that the curves have
        points = {}
        for line in runs.path("m").read_text().splitlines():
            if "samples" in json.loads(line):
                points[json.loads(line)["step"]] = json.loads(line)["samples"]
        assert sorted(points) == [0, 6, 12]
        expected = {f"samples/{i + 1}": [(step, "    " + (samples[i]["prompt"] + samples[i]["text"]).replace("\n", "\n    "))
                                         for step, samples in sorted(points.items())] for i in range(2)}
        assert texts(runs.path("curves")) == expected, texts(runs.path("curves"))


def test_curves_go_on_after_a_stop():
    with Runs() as runs:
        settings = ["report.metrics=m", "report.tensorboard=curves", "checkpoint.path=out", "train.steps=100"]
        stopped = runs.start_and_wait("m", 5, "train", "run.yaml", settings=settings + SLOWLY)
        runs.end(stopped, signal.SIGTERM)
        assert "resuming from" in runs.run("train", "run.yaml", settings=settings)
        runs.run("train", "run.yaml", settings=settings)  # nothing is left to train, but it validates
        steps, validations = runs.metrics("m")
        assert sorted(steps) == list(range(1, 101))
        check_curves(runs.path("curves"), steps, validations)


def test_curves_go_on_after_a_kill():
    with Runs() as runs:
        settings = ["train.steps=100"]
        runs.run("train", "run.yaml", settings=settings + ["report.metrics=straight"])
        settings += ["report.metrics=m", "report.tensorboard=curves", "checkpoint.path=out", "checkpoint.every=4"]
        for steps in (7, 6, 2):
            killed = runs.start_and_wait("m", steps, "train", "run.yaml", settings=settings + SLOWLY)
            runs.end(killed, signal.SIGKILL)
            newest = max(runs.path("curves").iterdir())
            os.truncate(newest, newest.stat().st_size - 3)  # as if it had been killed while it wrote
        runs.run("train", "run.yaml", settings=settings)
        straight, validations = runs.metrics("straight")
        steps, again = runs.metrics("m")
        curves = check_curves(runs.path("curves"), steps, again)
        assert sorted(steps) == list(range(1, 101)) and set(validations) <= set(again)
        assert curves["train/loss"] == [(step, fp32(values["loss"])) for step, values in sorted(straight.items())]


def test_curves_begin_anew_with_a_fresh_run():
    with Runs() as runs:
        settings = ["report.metrics=m", "report.tensorboard=curves", "checkpoint.path=out"]
        runs.run("train", "run.yaml", settings=settings)
        runs.path("m").unlink()
        runs.run("train", "run.yaml", "--fresh", settings=settings + ["train.steps=6"])
        check_curves(runs.path("curves"), *runs.metrics("m"))


def test_curves_of_several_models_are_a_run_each():
    with Runs() as runs:
        runs.run("train", str(ROOT / "examples/sweep.yaml"), settings=[
            "data.path=corpus.txt", "data.sequence_length=32", "train.steps=4", "train.batch=4", "select.rung_steps=[2]",
            "optimizer.schedule.warmup=1", "report.metrics=m", "report.tensorboard=curves"])
        names = sorted(folder.name for folder in runs.path("curves").iterdir())
        assert len(names) == 6 and "lr=2e-3,seed=1" in names, names
        lengths = []
        for name in names:
            steps, validations = runs.metrics("m." + name)
            check_curves(runs.path("curves") / name, steps, validations)
            lengths.append(len(steps))
        assert sorted(lengths) == [2, 2, 2, 4, 4, 4], lengths
