"""Runs the cases of a Python test, and prints what GoogleTest would, which test.sh counts."""
import sys
import time
import traceback


def cases_in(*modules):
    """The functions test_NAME of the modules, by NAME."""
    return {name.removeprefix("test_"): case for module in modules for name, case in vars(module).items() if name.startswith("test_")}


def run(suite, cases, words=()):
    """Runs the cases whose names have one of the words, or all without words. The status to exit with: 1 if one failed or none ran."""
    chosen = {name: case for name, case in cases.items() if not words or any(word in name for word in words)}
    begin, failures = time.monotonic(), 0
    for name, case in chosen.items():
        print(f"[ RUN      ] {suite}.{name}", flush=True)
        start, result = time.monotonic(), "[       OK ]"
        try:
            case()
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc(file=sys.stdout)
            failures, result = failures + 1, "[  FAILED  ]"
        print(f"{result} {suite}.{name} ({1000 * (time.monotonic() - start):.0f} ms)", flush=True)
    print(f"[==========] {len(chosen)} tests from 1 test suite ran. ({1000 * (time.monotonic() - begin):.0f} ms total)")
    return 1 if failures or not chosen else 0
