#!/usr/bin/env python3
"""Tests the files that a project has at its root and for GitHub: project_test.py [WORD...]

Runs the cases whose names have one of the words; all without words. Prints as GoogleTest does, which test.sh counts.
YAML is read by the package that came with MkDocs, which ./test.sh installs."""
import fnmatch
import hashlib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tests/support")]
sys.path += map(str, ROOT.glob(".deps/site/lib/python3*/site-packages"))
import cases  # noqa: E402  pylint: disable=wrong-import-position

APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"  # SHA-256 of /usr/share/common-licenses/Apache-2.0
WIDGETS = {"markdown", "input", "textarea", "dropdown", "checkboxes"}  # what GitHub's forms may have


def text(name):
    return (ROOT / name).read_text()


def read_yaml(name):
    try:
        import yaml  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise AssertionError("MkDocs is not installed: run ./test.sh with a network once, which installs it into .deps/site") from error
    return yaml.safe_load(text(name))


# --- licence and version ---------------------------------------------------------------------------------------------------

def test_the_licence_is_apache_2_to_the_byte():
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2
    assert "](LICENSE)" in text("README.md") and "](engine/tools/profile/page/d3-licence.txt)" in text("README.md")


def test_one_version_stands_everywhere():
    version = re.search(r"project\(strata VERSION ([\d.]+)", text("CMakeLists.txt")).group(1)
    version += ".0" * (2 - version.count("."))
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == version, citation["version"]
    assert citation["license"] == "Apache-2.0" and citation["cff-version"] == "1.2.0" and citation["authors"]
    headings = re.findall(r"^## \[([^\]]+)\](.*)$", text("CHANGELOG.md"), re.M)
    assert headings[0] == ("Unreleased", ""), headings
    assert version in [name for name, _ in headings] or f"This will be {version}," in text("CHANGELOG.md")
    assert all(re.fullmatch(r" - \d{4}-\d\d-\d\d", date) for _, date in headings[1:]), headings


# --- forms of issues -------------------------------------------------------------------------------------------------------

def test_forms_of_issues_are_such_as_github_takes():
    assert isinstance(read_yaml(".github/ISSUE_TEMPLATE/config.yml")["blank_issues_enabled"], bool)
    forms = sorted(path.name for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
    assert forms
    for name in forms:
        form = read_yaml(f".github/ISSUE_TEMPLATE/{name}")
        assert set(form) <= {"name", "description", "title", "labels", "assignees", "body"} and form["name"] and form["description"], name
        asked = [item for item in form["body"] if item["type"] != "markdown"]
        assert asked and all(item["type"] in WIDGETS for item in form["body"]), name
        for unique in ([item["id"] for item in asked], [item["attributes"]["label"] for item in asked]):
            assert len(set(unique)) == len(unique), unique
        for item in asked:
            assert set(item) <= {"type", "id", "attributes", "validations"} and re.fullmatch(r"[\w-]+", item["id"]), item
            assert (item["type"] == "dropdown") == ("options" in item["attributes"]), item


def test_a_report_has_version_machine_and_run_file():
    for name in ("bug.yml", "slow.yml"):
        required = {item["id"] for item in read_yaml(f".github/ISSUE_TEMPLATE/{name}")["body"] if item.get("validations", {}).get("required")}
        assert {"version", "doctor", "run-file"} <= required, required


# --- .editorconfig ---------------------------------------------------------------------------------------------------------

def sections(config):
    """(patterns, settings) of each section, in order; a pattern without a slash fits in every folder."""
    for heading, body in re.findall(r"^\[(.*)\]\n((?:[^\[]*\n)*)", config, re.M):
        before, names, after = re.fullmatch(r"([^{]*)(?:\{(.*)\})?(.*)", heading).groups()
        yield [before + name + after for name in (names or "").split(",")], dict(re.findall(r"^(\w+) = (\S+)$", body, re.M))


def settings_of(name, config):
    settings = {}
    for patterns, values in config:
        if any(fnmatch.fnmatch(name if "/" in pattern else name.rsplit("/", 1)[-1], pattern) for pattern in patterns):
            settings |= values
    return settings


def findings(name, content, settings):
    """What an editor that follows the settings would change in a file."""
    lines = content.split(b"\n")
    if settings.get("charset") == "utf-8" and content.decode(errors="ignore").encode() != content:
        yield f"{name} is not UTF-8"
    if settings.get("end_of_line") == "lf" and b"\r" in content:
        yield f"{name} has carriage returns"
    if settings.get("insert_final_newline") == "true" and content and lines[-1]:
        yield f"{name} does not end with a newline"
    if settings.get("trim_trailing_whitespace") == "true" and any(line != line.rstrip(b" \t") for line in lines):
        yield f"{name} has blanks at the end of a line"
    if settings.get("indent_style") == "space" and any(re.match(rb" *\t", line) for line in lines):
        yield f"{name} has tabs at the beginning of a line"


def test_editorconfig_is_read_as_editors_do():
    config = list(sections("root = true\n[*]\na = 1\nb = 1\n[*.{h,cpp}]\na = 2\n[{x,docs/**}]\nb = unset\n"))
    assert settings_of("base/a.py", config) == {"a": "1", "b": "1"}
    assert settings_of("base/a.cpp", config) == {"a": "2", "b": "1"}
    assert settings_of("docs/c/a.h", config) == {"a": "2", "b": "unset"}
    assert settings_of("x", config)["b"] == "unset"
    every = {"charset": "utf-8", "end_of_line": "lf", "insert_final_newline": "true", "trim_trailing_whitespace": "true", "indent_style": "space"}
    assert len(list(findings("a", b"\tx \r\ny \n\xff", every))) == 5
    assert not list(findings("a", b"x\n  y\tz\n", every)) and not list(findings("a", b"\tx ", {}))


def test_all_files_are_as_editorconfig_says():
    config = list(sections(text(".editorconfig")))
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True,
                           check=True).stdout.split("\0")
    found = []
    for name in filter(None, names):
        path = ROOT / name
        if path.is_file() and b"\0" not in (content := path.read_bytes()):
            found += findings(name, content, settings_of(name, config))
    assert len(names) > 500 and not found, found


if __name__ == "__main__":
    sys.exit(cases.run("Project", cases.cases_in(sys.modules[__name__]), sys.argv[1:]))
