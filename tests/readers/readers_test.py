#!/usr/bin/env python3
"""Reads what the strata program writes with other people's readers: readers_test.py [WORD...]

Runs the cases whose names have one of the words; all without words. Prints as GoogleTest does, which test.sh counts.
cmake/setup.sh makes the environment in .deps/readers that has the readers."""
import os
import pathlib
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".deps/readers/bin/python"


def main(words):
    if not (ROOT / ".deps/readers/requirements.txt").exists():
        print("The readers of this test are not installed: run ./test.sh with a network once, which installs them into "
              ".deps/readers")
        return 1
    if pathlib.Path(sys.prefix) != PYTHON.parents[1]:
        os.execv(PYTHON, [str(PYTHON), "-B", __file__, *words])
    import curves  # pylint: disable=import-outside-toplevel
    import profiles  # pylint: disable=import-outside-toplevel
    cases = [(name.removeprefix("test_"), case) for module in (profiles, curves)
             for name, case in vars(module).items() if name.startswith("test_")]
    cases = [(name, case) for name, case in cases if not words or any(word in name for word in words)]
    begin, failed = time.monotonic(), []
    for name, case in cases:
        print(f"[ RUN      ] Readers.{name}", flush=True)
        start = time.monotonic()
        try:
            case()
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc(file=sys.stdout)
            failed.append(name)
        result = "[  FAILED  ]" if name in failed[-1:] else "[       OK ]"
        print(f"{result} Readers.{name} ({1000 * (time.monotonic() - start):.0f} ms)", flush=True)
    print(f"[==========] {len(cases)} tests from 1 test suite ran. ({1000 * (time.monotonic() - begin):.0f} ms total)")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
