"""Profiles as Perfetto's definitions and Python's pickle read them, held against summary.json."""
import pickle
from collections import defaultdict

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackDescriptor, TrackEvent

from strata_runs import ROOT, Runs

TIERS = ("device", "host", "nvme")  # in the order of the memory view's devices


class Profile:
    """What a process of the trace shows."""

    def __init__(self):
        self.slices = defaultdict(list)    # by lane: (begin, end, name), in nanoseconds
        self.counters = defaultdict(list)  # by name: (time, bytes)


def read_trace(path):
    """{name of the process: Profile}, and {flow: [(time, begins)]} of all."""
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    processes, threads, counters = {}, {}, {}
    by_pid, open_slices = {}, defaultdict(list)
    profiles, flows = defaultdict(Profile), defaultdict(list)
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("process"):
                processes[track.uuid] = by_pid[track.process.pid] = track.process.process_name
            elif track.HasField("thread"):
                threads[track.uuid] = (by_pid[track.thread.pid], track.thread.thread_name)
            else:
                assert track.counter.unit == track.counter.UNIT_SIZE_BYTES
                counters[track.uuid] = (processes[track.parent_uuid], track.name)
        elif packet.HasField("track_event"):
            event, time = packet.track_event, packet.timestamp
            if event.type == TrackEvent.TYPE_COUNTER:
                process, name = counters[event.track_uuid]
                profiles[process].counters[name].append((time, event.counter_value))
            elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
                open_slices[event.track_uuid].append((time, event.name, list(event.flow_ids)))
                for flow in event.terminating_flow_ids:
                    flows[flow].append((time, False))
            else:
                assert event.type == TrackEvent.TYPE_SLICE_END
                process, lane = threads[event.track_uuid]
                begin, name, starting = open_slices[event.track_uuid].pop()
                profiles[process].slices[lane].append((begin, time, name))
                for flow in starting:
                    flows[flow].append((time, True))
    assert not any(open_slices.values()), "a slice does not end"
    return profiles, flows


def check_slices(profile, summary):
    assert set(profile.slices) == set(summary["lanes"])
    for lane, figures in summary["lanes"].items():
        slices = profile.slices[lane]
        assert len(slices) == figures["slices"], lane
        for (_, end, name), (begin, _, after) in zip(slices, slices[1:]):
            assert end <= begin, f"{lane}: {name} and {after} overlap"
        busy = sum(end - begin for begin, end, _ in slices) * 1e-9
        assert abs(busy - figures["busy_seconds"]) <= 1e-9 * len(slices), f"{lane}: {busy}"


def check_counters(profile, summary):
    for tier, figures in summary["memory"].items():
        points = profile.counters[tier]
        assert [time for time, _ in points] == sorted(time for time, _ in points)
        assert max(value for _, value in points) == figures["live_peak_bytes"], tier
        assert figures["live_peak_bytes"] <= figures["peak_bytes"]
        at_peak = round(figures["live_peak_at_seconds"] * 1e9)
        for kind, value in figures["by_kind"].items():
            points = profile.counters.get(f"{tier} {kind}", [(0, 0)])
            before = [value for time, value in points if time < at_peak][-1:]
            # Moments of less than a nanosecond have one time.
            then = before + [value for time, value in points if time == at_peak]
            assert value in then, f"{tier} {kind}: {value} is not in {then}"


def check_flows(flows):
    assert flows
    for flow, ends in flows.items():
        assert sorted(begins for _, begins in ends) == [False, True], f"flow {flow} has other ends than two"
        times = {begins: time for time, begins in ends}
        assert times[True] <= times[False], f"flow {flow} ends before it starts"


class PlainUnpickler(pickle.Unpickler):
    """As the unpickler of PyTorch's page, which knows no classes."""

    def find_class(self, module, name):
        raise AssertionError(f"the memory view asks for {module}.{name}")


def check_memory_view(path, summary):
    with open(path, "rb") as file:
        view = PlainUnpickler(file).load()
    assert len(view["device_traces"]) == len(TIERS)
    check_segments(view["segments"], summary)
    for tier, events in zip(TIERS, view["device_traces"]):
        if tier in summary["memory"]:
            check_events(tier, events, summary["memory"][tier])
        else:
            assert not events, tier


def check_segments(segments, summary):
    assert [TIERS[segment["device"]] for segment in segments] == [tier for tier in TIERS if tier in summary["memory"]]
    for segment in segments:
        assert segment["total_size"] == summary["memory"][TIERS[segment["device"]]]["peak_bytes"]
        end = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == end and block["state"] in ("active_allocated", "inactive")
            assert block["requested_size"] == block["size"] and isinstance(block["frames"], list)
            end += block["size"]
        assert end == segment["address"] + segment["total_size"]


def check_events(tier, events, figures):
    """Replays the tier's allocations: none overlaps another, none leaves the arena."""
    living, made = {}, set()
    highest = 0
    for event in events:
        begin, end = event["addr"], event["addr"] + event["size"]
        names = [frame["name"] for frame in event["frames"]]
        assert all(set(frame) == {"name", "filename", "line"} for frame in event["frames"])
        if event["action"] == "alloc":
            for other, (other_end, name) in living.items():
                assert end <= other or other_end <= begin, f"{tier}: {names[0]} overlaps {name}"
            living[begin] = (end, names[0])
            highest = max(highest, end)
            made.add((names[0], event["frames"][0]["filename"], event["size"], names[1] if names[1:] else None))
        else:
            assert event["action"] == "free_completed"
            assert living.pop(begin) == (end, names[0]), f"{tier}: {names[0]} is freed and was not there"
    assert highest == figures["peak_bytes"], tier
    for buffer in figures["at_peak"]:
        assert (buffer["name"], buffer["kind"], buffer["bytes"], buffer["made_by"]) in made, buffer["name"]


def check_folder(folder, summary, is_measured):
    """All files of a folder of one planned profile."""
    profiles, flows = read_trace(folder / "trace.pftrace")
    assert set(profiles) == ({"planned", "measured"} if is_measured else {"planned"})
    for name, profile in profiles.items():
        (figures,) = summary[name]
        check_slices(profile, figures)
        check_counters(profile, figures)
    check_flows(flows)
    check_memory_view(folder / "memory_view.pickle", summary["planned"][0])


def check_command(runs, is_measured, *words, settings=()):
    runs.run(*words, "--profile", "profile", settings=settings)
    check_folder(runs.path("profile"), runs.json("profile/summary.json"), is_measured)


DRIVES = ["memory.host=1MiB", "memory.nvme.path=drive", "memory.placement.optimizer_state=nvme"]
SHORT_SWEEP = ["data.path=corpus.txt", "data.sequence_length=32", "train.steps=4", "train.batch=4",
               "optimizer.schedule.warmup=1", "select.rung_steps=[3]"]


def test_profile_of_a_plan():
    with Runs() as runs:
        check_command(runs, False, "plan", "run.yaml")


def test_profile_of_a_run():
    with Runs() as runs:
        check_command(runs, True, "train", "run.yaml")


def test_profile_of_a_plan_with_drives():
    with Runs() as runs:
        runs.path("drive").mkdir()
        check_command(runs, False, "plan", "run.yaml", settings=DRIVES)


def test_profile_of_a_plan_of_several_models():
    with Runs() as runs:
        check_command(runs, False, "plan", str(ROOT / "examples/sweep.yaml"), settings=SHORT_SWEEP)


def test_profile_of_a_run_of_several_models():
    with Runs() as runs:
        check_command(runs, True, "train", str(ROOT / "examples/sweep.yaml"), settings=SHORT_SWEEP)
