#!/usr/bin/env python3
"""Tests cmake/third_party.py, which knows the packages that a program needs and their licences: third_party_test.py [WORD...]

Runs the cases whose names have one of the words; all without words. Prints as GoogleTest does, which test.sh counts.
STRATA_PROGRAM names the program in its build folder."""
import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("STRATA_PROGRAM", str(ROOT / "build/strata"))
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "cmake"), str(ROOT / "tests/support")]
import cases  # noqa: E402  pylint: disable=wrong-import-position
import third_party  # noqa: E402  pylint: disable=wrong-import-position


def third(*arguments):
    """Status and what third_party.py prints."""
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
        status = third_party.main([*map(str, arguments)])
    return status, output.getvalue()


def test_licences_of_a_target_are_those_of_all_that_is_compiled_in():
    with tempfile.TemporaryDirectory() as folder:
        status, said = third("licences", f"{folder}/licences", "--build", os.path.dirname(PROGRAM), "--targets", "strata")
        assert status == 0, said
        names = set(os.listdir(f"{folder}/licences"))
        assert {"nlohmann-json3-dev", "libcli11-dev", "libfmt-dev", "libhwy-dev", "libprotozero-dev", "libxxhash-dev", "node-d3"} <= names, names
        assert "libgtest-dev" not in names, names
        index = pathlib.Path(folder, "licences/index.txt").read_text()
        assert re.search(r"^libcli11-dev \d\S*: compiled in$", index, re.M), index
        assert all(re.search(rf"^{re.escape(name)}\b", index, re.M) for name in names - {"index.txt", "common-licenses"}), index


def test_licences_of_copies_and_files_are_found_and_the_texts_that_they_name():
    with tempfile.TemporaryDirectory() as folder:
        copies = pathlib.Path(folder, "lib")
        copies.mkdir()
        (copies / "libstdc++.so.6").touch()
        (copies / "notes.txt").touch()
        (copies / "link.so").symlink_to("libstdc++.so.6")
        status, said = third("licences", f"{folder}/licences", "--copies", copies, "--files", "/usr/bin/env", "/lib/x86_64-linux-gnu/libc.so.6")
        assert (status, said) == (0, f"{folder}/licences: the licences of 3 packages\n"), said
        assert sorted(os.listdir(f"{folder}/licences")) == ["common-licenses", "coreutils", "index.txt", "libc6", "libstdc++6"]
        assert {"GPL-3", "LGPL-2.1"} <= set(os.listdir(f"{folder}/licences/common-licenses"))


def test_a_file_of_no_package_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        copies = pathlib.Path(folder, "lib")
        copies.mkdir()
        (copies / "libplanted.so.1").touch()
        status, said = third("licences", f"{folder}/licences", "--copies", copies, "--files", f"{folder}/planted")
        assert status == 1 and "libplanted.so.1 belongs to no Debian package" in said and f"{folder}/planted belongs to no" in said, said


def test_a_package_without_a_licence_is_refused():
    documentation = third_party.DOCUMENTATION
    with tempfile.TemporaryDirectory() as folder:
        third_party.DOCUMENTATION = folder
        try:
            status, said = third("licences", f"{folder}/licences", "--files", "/usr/bin/env")
        finally:
            third_party.DOCUMENTATION = documentation
        assert status == 1 and f"the package coreutils has no {folder}/coreutils/copyright" in said, said
        assert not os.path.exists(f"{folder}/licences/index.txt")


def test_packages_that_a_program_loads_are_named():
    status, said = third("packages", PROGRAM)
    assert status == 0, said
    assert {"libc6", "libdnnl2", "libhwloc15", "libopenmpi3", "libyaml-cpp0.7"} <= set(said.split()), said
    assert not any(name.endswith("-dev") for name in said.split()), said
    status, said = third("packages", "/planted")
    assert status == 1 and said.startswith("/planted is no program"), said


if __name__ == "__main__":
    sys.exit(cases.run("ThirdParty", cases.cases_in(sys.modules[__name__]), sys.argv[1:]))
