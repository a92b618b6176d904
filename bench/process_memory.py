"""The kernel's figures of a process's memory. Python's standard library only."""
import pathlib


def status_bytes(key, process="self"):
    """VmRSS, or VmHWM, the largest VmRSS since the last reset_peak. OSError or StopIteration if the process has ended."""
    lines = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{key}:")).split()[1]) * 1024


def peak_bytes(process="self"):
    return status_bytes("VmHWM", process)


def reset_peak(process="self"):
    """Forgets the peak of what came before, as warm-up and compilation, which is not training's."""
    pathlib.Path(f"/proc/{process}/clear_refs").write_text("5")
