#!/usr/bin/env python3
"""Tests that every test of ctest has one label, and that no case is lost or runs twice: labels_test.py CTEST BUILD [WORD...]

Runs the cases whose names have one of the words; all without words. Prints as GoogleTest does, which test.sh counts."""
import collections
import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/support"))
import cases  # noqa: E402  pylint: disable=wrong-import-position

LABELS = ["unit", "run", "process", "long"]
LAUNCH = re.compile(r"(\w+)(?:\.\w+)?\.\d+")  # the names that strata_test() gives: PROGRAM.N and PROGRAM.LABEL.N

# program: its path; filter: GoogleTest's; launches: how many the filter's cases are divided among; launch: which of them this is.
Launch = collections.namedtuple("Launch", "test label program filter launches launch")


@functools.cache
def tests():
    """What ctest would run, by name. From a folder of its own, since ctest overwrites the logs of a run in the folder it lists."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "CTestTestfile.cmake").write_text(f'subdirs("{BUILD}")\n')
        listed = subprocess.run([CTEST, "--show-only=json-v1"], cwd=folder, check=True, capture_output=True, text=True).stdout
    found = {}
    for test in json.loads(listed)["tests"]:
        assert test["name"] not in found, f"{test['name']} is there twice"
        found[test["name"]] = test
    return found


def property_of(test, name):
    return next((item["value"] for item in test["properties"] if item["name"] == name), [])


@functools.cache
def launches():
    found = []
    for name, test in tests().items():
        if LAUNCH.fullmatch(name) and test["command"][1].startswith("--gtest_filter="):
            environment = dict(item.split("=", 1) for item in property_of(test, "ENVIRONMENT"))
            found.append(Launch(name, property_of(test, "LABELS")[0], test["command"][0], test["command"][1].split("=", 1)[1],
                                int(environment["GTEST_TOTAL_SHARDS"]), int(environment["GTEST_SHARD_INDEX"])))
    return found


@functools.cache
def listed_cases(program, chosen="*"):
    lines = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={chosen}"], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    found, suite = [], None
    for line in lines:
        word = line.split("#")[0].strip()
        if line.startswith("  "):
            found.append(suite + word)
        elif word.endswith("."):
            suite = word
    return found


def filters_of_programs():
    """The label and the launches of each filter, by program."""
    programs = collections.defaultdict(lambda: collections.defaultdict(list))
    for launch in launches():
        programs[launch.program][launch.label, launch.filter].append(launch)
    return programs


def test_every_test_has_one_label():
    for name, test in tests().items():
        labels = property_of(test, "LABELS")
        assert len(labels) == 1 and labels[0] in LABELS, f"{name} has the labels {labels}"


def test_launches_divide_the_cases_of_their_filter():
    assert launches()
    for filters in filters_of_programs().values():
        for parts in filters.values():
            counts = {part.launches for part in parts}
            assert counts == {len(parts)} and {part.launch for part in parts} == set(range(len(parts))), parts


def test_filters_divide_the_cases_of_their_program():
    cases_of_label = collections.Counter()
    for program, filters in filters_of_programs().items():
        chosen = {filter: listed_cases(program, filter) for _, filter in filters}
        for label, filter in filters:
            assert chosen[filter], f"no case of {program} fits {filter}"
            cases_of_label[label] += len(chosen[filter])
        together = [case for some in chosen.values() for case in some]
        assert len(together) == len(set(together)), f"cases of {program} run twice"
        # A single filter is a choice of tests/CMakeLists.txt, which is made for all labels.
        whole = listed_cases(program, *chosen) if len(filters) == 1 else listed_cases(program)
        assert sorted(together) == sorted(whole), f"cases of {program} are lost: {sorted(set(whole) - set(together))}"
    print(", ".join(f"{label}: {cases_of_label[label]} cases" for label in LABELS), flush=True)


def test_suites_have_the_label_of_their_name():
    for launch in launches():
        for case in listed_cases(launch.program, launch.filter):
            named = re.search(r"(Unit|Run|Process|Long)Test\.", case)
            assert not named or named.group(1).lower() == launch.label, \
                f"{case} runs as {launch.label}: list its label in SUITES of strata_test() (tests/CMakeLists.txt)"


def configured(*lines):
    """The error of CMake for a project of these lines; empty if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "CMakeLists.txt").write_text("\n".join(
            ["cmake_minimum_required(VERSION 3.25)", "project(planted NONE)", "enable_testing()",
             f"include({ROOT}/cmake/labels.cmake)", *lines, ""]))
        ended = subprocess.run(["cmake", "-S", folder, "-B", f"{folder}/build"], capture_output=True, text=True, check=False)
        assert (ended.returncode == 0) == ("Error" not in ended.stderr), ended.stderr
        return " ".join(ended.stderr.split())


def test_a_test_without_a_label_stops_cmake():
    assert configured("add_test(NAME one COMMAND true)", "strata_label(unit one)") == ""
    assert "have no label: one, two." in configured("add_test(NAME one COMMAND true)", "add_test(NAME two COMMAND true)")
    assert "has the label 'fast': it needs one of unit, run, process, long" in configured(
        "add_test(NAME one COMMAND true)", "strata_label(fast one)")
    below = ["file(WRITE ${CMAKE_SOURCE_DIR}/below/CMakeLists.txt \"add_test(NAME deep COMMAND true)\")", "add_subdirectory(below)"]
    assert "have no label: deep." in configured(*below)


if __name__ == "__main__":
    CTEST, BUILD = sys.argv[1:3]
    sys.exit(cases.run("Labels", cases.cases_in(sys.modules[__name__]), sys.argv[3:]))
