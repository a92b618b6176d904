#!/usr/bin/env python3
"""Tests the Dockerfiles, and docker_steps.py, which runs them without Docker: docker_steps_test.py [WORD...]

Runs the cases whose names have one of the words; all without words. Prints as GoogleTest does, which test.sh counts.
No step of a Dockerfile runs here: tests/install/containers.sh does that."""
import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILES = ("docker/cpu/Dockerfile", "docker/cuda/Dockerfile")
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tests/support")]
import cases  # noqa: E402  pylint: disable=wrong-import-position
import docker_steps  # noqa: E402  pylint: disable=wrong-import-position


# --- reading Dockerfiles ---------------------------------------------------------------------------------------------------

class NoLayers:
    """In place of docker_steps.Layers: every step counts as done before."""

    def has(self, _):
        return True


def read(text, folder, **given):
    """The build of a Dockerfile whose steps are read but not run, and its last stage."""
    path = pathlib.Path(folder, "planted.Dockerfile")
    path.write_text(text)
    build = docker_steps.Build(path, folder, given, folder)
    build.layers = NoLayers()
    with contextlib.redirect_stdout(io.StringIO()):
        return build, build.run()


def refused(text, *words):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "file").touch()
        try:
            read(text, folder)
        except docker_steps.Refusal as refusal:
            assert all(word in str(refusal) for word in words), refusal
            return
    raise AssertionError(f"not refused: {text}")


def test_continued_lines_and_comments_are_read():
    found = list(docker_steps.instructions("# a\nRUN a \\\n # b\n  && c\n\nenv A=1\n"))
    assert found == [("RUN", "a    && c"), ("ENV", "A=1")], found


def test_settings_pass_to_later_stages_and_arguments_do_not():
    text = ("ARG IMAGE=debian:12-slim\nFROM $IMAGE AS a\nARG X=1\nENV A=${X}2 B='c d'\nWORKDIR /w\nUSER u\n"
            'ENTRYPOINT ["p"]\nCMD ["q"]\nFROM a\nWORKDIR ${A}\n')
    with tempfile.TemporaryDirectory() as folder:
        stage = read(text, folder)[1]
        assert (stage.variables, stage.arguments, stage.folder, stage.user) == ({"A": "12", "B": "c d"}, {}, "/w/12", "u")
        assert (stage.entry, stage.command) == (["p"], ["q"])
        assert read(text, folder, X="5")[1].variables["A"] == "52"


def test_a_changed_file_makes_new_layers():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "file")
        text = "FROM debian:12-slim\nRUN a\nCOPY file b/\nRUN c\n"
        keys = []
        for content in ("one", "two", "one"):
            file.write_text(content)
            keys.append(read(text, folder)[1].keys)
        assert keys[0] == keys[2] and keys[0][:2] == keys[1][:2] and not set(keys[0][2:]) & set(keys[1][2:]), keys


def test_what_no_step_could_do_is_refused():
    refused("FROM ubuntu:1\n", "FROM ubuntu:1", "debian:12-slim")
    refused("FROM debian:12\nHEALTHCHECK a\n", "HEALTHCHECK is not known")
    refused("FROM debian:12\nCOPY no /\n", "COPY no: the context has no such file")
    refused("FROM debian:12\nCOPY --chown=a file /\n", "--chown is not known")
    refused("FROM debian:12\nCOPY --from=b file /\n", "no stage above is called b")
    refused("FROM debian:12\nRUN --mount=type=cache,target=/a b\n", "only --mount=type=bind")
    refused("FROM debian:12\nRUN <<END\nEND\n", "here-documents")
    refused("FROM debian:12\nENTRYPOINT a\n", "expected a list")


def test_dockerignore_is_read_as_docker_does():
    ignored = docker_steps.Ignored("# x\nbuild\n/out/\n**/*.pyc\na/*.gz\nlogs\n!logs/kept\n")
    for path in ("build", "build/a/b", "out/a", "x.pyc", "a/b/x.pyc", "a/b.gz", "logs/other"):
        assert ignored.has(path), path
    for path in ("builds", "a/build", "x.py", "a/b/c.gz", "logs/kept"):
        assert not ignored.has(path), path


def test_dockerignore_leaves_out_what_git_ignores():
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    for pattern in (ROOT / ".gitignore").read_text().split():
        expected = pattern.strip("/") if pattern.startswith("/") else "**/" + pattern.strip("/")
        assert expected in rules, f".dockerignore lacks {expected}, since .gitignore has {pattern}"


# --- the Dockerfiles -------------------------------------------------------------------------------------------------------

def build_of(name):
    build = docker_steps.Build(ROOT / name, ROOT, {})
    build.layers = NoLayers()
    with contextlib.redirect_stdout(io.StringIO()):
        return build, build.run()


def test_images_start_strata_as_an_ordinary_user():
    for name in DOCKERFILES:
        stage = build_of(name)[1]
        assert (stage.entry, stage.user, stage.folder) == (["strata"], "strata", "/work"), name


def test_images_are_tried_by_commands_that_are_read():
    for image in ("cpu", "cuda"):  # --help is read last
        subprocess.run([ROOT / "tests/install/containers.sh", image, "--help"], check=True, capture_output=True)


def test_packages_are_listed_nowhere_else():
    listed = {line for line in (ROOT / "cmake/packages.txt").read_text().split() if re.fullmatch(r"lib[\w.+-]+-dev", line)}
    for name in DOCKERFILES + (".devcontainer/devcontainer.json",):
        text = (ROOT / name).read_text()
        assert "install_packages cmake/packages.txt" in text and not [package for package in listed if package in text], name


def test_the_development_container_uses_a_stage():
    built = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())["build"]
    name = os.path.normpath(os.path.join(".devcontainer", built["dockerfile"]))
    assert name in DOCKERFILES and os.path.normpath(os.path.join(".devcontainer", built["context"])) == "."
    build_of(name)[0].find_stage(built["target"])


if __name__ == "__main__":
    sys.exit(cases.run("DockerSteps", cases.cases_in(sys.modules[__name__]), sys.argv[1:]))
