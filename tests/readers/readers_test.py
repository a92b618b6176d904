#!/usr/bin/env python3
"""Reads what the strata program writes with other people's readers: readers_test.py [WORD...]

Runs the cases whose names have one of the words; all without words. Prints as GoogleTest does, which test.sh counts.
cmake/setup.sh makes the environment in .deps/readers that has the readers."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".deps/readers/bin/python"


def main(words):
    if not (ROOT / ".deps/readers/requirements.txt").exists():
        print("The readers of this test are not installed: run ./test.sh with a network once, which installs them into "
              ".deps/readers")
        return 1
    if pathlib.Path(sys.prefix) != PYTHON.parents[1]:
        os.execv(PYTHON, [str(PYTHON), "-B", __file__, *words])
    sys.path.insert(0, str(ROOT / "tests/support"))
    import cases  # pylint: disable=import-outside-toplevel
    import curves  # pylint: disable=import-outside-toplevel
    import profiles  # pylint: disable=import-outside-toplevel
    return cases.run("Readers", cases.cases_in(profiles, curves), words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
