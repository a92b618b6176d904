#!/usr/bin/env python3
"""Tests what `cmake --install` makes of a build folder, and the commit that a build is told: install_test.py BUILD_FOLDER [WORD...]

The tree is installed, moved, and used from another folder as another user would. Runs the cases whose names have one of
the words; all without words. Prints as GoogleTest does, which test.sh counts."""
import contextlib
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(ROOT / "tests/support"))
import cases  # noqa: E402  pylint: disable=wrong-import-position


def run(*words, **options):
    """The output of a command that must succeed."""
    ended = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=120, **options)
    assert ended.returncode == 0, f"{words} ended with {ended.returncode}: {ended.stdout}{ended.stderr}"
    return ended.stdout + ended.stderr


@functools.cache
def installed():
    """A tree that was installed into one folder, and lies in another."""
    folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with  # it lives as long as the test
    first, second = pathlib.Path(folder.name, "first"), pathlib.Path(folder.name, "elsewhere/second")
    run("cmake", "--install", BUILD, "--prefix", first)
    second.parent.mkdir()
    first.rename(second)
    return folder, first, second


def tree():
    return installed()[2]


def strata(*words, **options):
    return run(tree() / "bin/strata", *words, **options)


@functools.cache
def commands():
    """The options of each command, as its help lists them."""
    listed = re.split(r"\nSubcommands:\n", strata("--help"))[1]
    names = re.findall(r"^  (\w+) ", listed, re.M)
    return {name: set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", strata(name, "--help"), re.M)) for name in names}


# --- the tree ----------------------------------------------------------------------------------------------------------------

def test_a_moved_tree_trains_the_quickstart_of_any_user():
    with tempfile.TemporaryDirectory() as home:
        strata("train", tree() / "share/strata/examples/quickstart.yaml", "--set", "train.steps=2", "--set", "optimizer.schedule.warmup=1",
               "--set", "train.samples.every=2", cwd=home, env={"HOME": home, "PATH": os.environ["PATH"]})
        assert (pathlib.Path(home) / "out/quickstart/step-00000002").is_dir()


def test_the_tree_names_no_folder_of_the_build():
    folders = [str(ROOT).encode(), str(BUILD).encode(), str(installed()[1]).encode()]
    for file in filter(pathlib.Path.is_file, tree().rglob("*")):
        content = file.read_bytes()
        for folder in folders:
            assert folder not in content, f"{file} names {folder}"


def test_the_tree_has_what_a_user_looks_for():
    for name in ["bin/strata", "share/man/man1/strata.1", "share/bash-completion/completions/strata", "share/zsh/site-functions/_strata",
                 "share/fish/vendor_completions.d/strata.fish", "share/doc/strata/LICENSE", "share/doc/strata/README.md",
                 "share/doc/strata/licences/index.txt", "share/doc/strata/docs/how-to/from-axolotl.md",
                 "share/doc/strata/examples/quickstart.yaml", "share/strata/examples/machines/h100-node.yaml", "share/strata/examples/text/README.md"]:
        assert (tree() / name).is_file(), name
    assert 1e6 < sum(file.stat().st_size for file in (tree() / "share/strata/examples/text").glob("*.txt")) < 5e6
    assert not list(tree().rglob("*bench*")), "the bundle's programs are installed too"


def test_what_the_program_names_lies_in_the_tree():
    with tempfile.TemporaryDirectory() as home:
        pathlib.Path(home, "axolotl.yaml").write_text("base_model: a\nsequence_len: 8\n")
        ended = subprocess.run([tree() / "bin/strata", "train", "axolotl.yaml"], cwd=home, capture_output=True, text=True, check=False)
        for text in [strata("--help", cwd=home), ended.stderr]:
            named = re.search(r"/\S+\.(yaml|md)", text)
            assert named and pathlib.Path(named.group()).is_relative_to(tree()) and pathlib.Path(named.group()).is_file(), text


def test_what_is_not_built_is_not_installed():
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder, "cmake_install.cmake")
        script.write_text((BUILD / "cmake_install.cmake").read_text().replace(f"{BUILD}/strata\"", f"{folder}/strata\""))
        ended = subprocess.run(["cmake", f"-DCMAKE_INSTALL_PREFIX={folder}/prefix", "-P", str(script)], capture_output=True, text=True, check=False)
        assert ended.returncode and "Nothing is installed" in ended.stderr and "--target strata" in ended.stderr, ended.stderr
        assert not pathlib.Path(folder, "prefix").exists()


# --- manual pages and completions --------------------------------------------------------------------------------------------

def test_manual_pages_are_as_mandoc_asks():
    pages = sorted((tree() / "share/man/man1").glob("*.1"))
    assert {page.name for page in pages} == {"strata.1"} | {f"strata-{name}.1" for name in commands()}
    run("mandoc", "-T", "lint", "-W", "warning", *pages)


def test_manual_pages_have_every_option():
    for name, options in commands().items():
        page = run("mandoc", "-T", "ascii", tree() / f"share/man/man1/strata-{name}.1")
        page = re.sub(".\x08", "", page)  # bold and underlined letters are struck twice
        for option in options:
            assert re.search(rf"^ +.*{option}\b", page, re.M), f"strata-{name}.1 lacks {option}"


def test_completions_have_every_option():
    for name in ["share/bash-completion/completions/strata", "share/zsh/site-functions/_strata", "share/fish/vendor_completions.d/strata.fish"]:
        text = (tree() / name).read_text()
        for command, options in commands().items():
            assert command in text, f"{name} lacks {command}"
            for option in options:
                assert option in text or f" -l {option[2:]} " in text, f"{name} lacks {option}"


def completed(*words):
    """What bash offers for the last of the words."""
    script = f"""source {tree()}/share/bash-completion/completions/strata
compopt() {{ :; }}
COMP_WORDS=(strata "$@") COMP_CWORD=$#
_strata
printf '%s\\n' "${{COMPREPLY[@]}}" """
    return set(run("bash", "-c", script, "bash", *words).split())


def test_bash_completes_commands_options_values_and_keys():
    assert {"train", "plan", "--version"} <= completed("") and "manual" not in completed("")
    assert completed("tr") == {"train"}
    assert completed("train", "run.yaml", "--js") == {"--json"}
    assert completed("generate", "out", "--device", "") == {"cpu", "cuda"}
    assert completed("train", "run.yaml", "--set", "train.st") == {"train.steps="}
    assert "select.keep=" in completed("plan", "--set", "sel")
    assert completed("help", "exp") == {"export", "explain"}
    assert completed("train", "run") == set()  # files are completed by bash itself


# --- the library -------------------------------------------------------------------------------------------------------------

@functools.cache
def example():
    """The folder where examples/api was built by find_package() from the installed tree."""
    folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with  # it lives as long as the test
    source = tree() / "share/strata/examples/api"
    run("cmake", "-G", "Ninja", "-S", source, "-B", folder.name, f"-DStrata_ROOT={tree()}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
    run("cmake", "--build", folder.name)
    return folder


def test_a_program_finds_the_library_and_trains_the_same_bits():
    with tempfile.TemporaryDirectory() as home:
        settings = ["train.steps=3", "optimizer.schedule.warmup=1", "train.validate_every=3"]
        quickstart = tree() / "share/strata/examples/quickstart.yaml"
        said = run(pathlib.Path(example().name, "train"), quickstart, *settings, "checkpoint.path=by-library", cwd=home)
        assert re.findall(r"step (\d), loss [\d.]+", said) == ["1", "2", "3"], said
        words = [word for setting in settings for word in ("--set", setting)]
        trained = strata("train", quickstart, *words, "--set", "checkpoint.path=by-program", cwd=home)
        assert re.search(r"state hash (\w+)", said).group(1) == re.search(r"state hash (\w+)", trained).group(1)
        written = strata("generate", "by-library", "--tokenizer", "bytes", "--prompt", "It is a truth", "--max-tokens", "20", cwd=home)
        assert said.splitlines()[-1] in written, (said, written)
        again = run(pathlib.Path(example().name, "train"), quickstart, *settings, "train.steps=4", "checkpoint.path=by-library", cwd=home)
        assert re.findall(r"step (\d)", again) == ["4"], again


def test_the_library_refuses_in_a_sentence():
    with tempfile.TemporaryDirectory() as home:
        quickstart = tree() / "share/strata/examples/quickstart.yaml"
        for setting, sentence in [("train.step=3", "did you mean 'train.steps'?"), ("memory.device=64KiB", "memory.device"),
                                  ("sweep={train.seed: [1, 2]}", "several models")]:
            ended = subprocess.run([pathlib.Path(example().name, "train"), quickstart, setting], cwd=home, capture_output=True, text=True, check=False)
            assert ended.returncode == 1 and sentence in ended.stderr, (setting, ended)


def test_the_library_shows_its_header_alone():
    symbols = run("nm", "--dynamic", "--defined-only", "--demangle", tree() / "lib/libstrata.so").splitlines()
    names = {symbol.split(" ", 2)[2] for symbol in symbols}
    others = {name for name in names if not re.match(r"strata::(Run|TextModel)::", name)}
    assert names and not others, sorted(others)[:20]


# --- the commit --------------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def checkout():
    """A folder with a CMakeLists.txt and a commit, a function that reads what a build is told there, and one for git."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "source")
        source.mkdir()
        (source / "CMakeLists.txt").write_text("one\n")
        output = pathlib.Path(folder, "build_facts.cpp")

        def git(*words):
            names = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
            return run("git", *names, "-C", source, *words).strip()

        def facts():
            run("cmake", f"-DSOURCE={source}", f"-DOUTPUT={output}", "-DVERSION=0.1", "-DTYPE=Release", "-P", ROOT / "cmake/build_facts.cmake")
            found = re.search(r'commit = "(\w*)".*?dirty = (\w+)', output.read_text(), re.S)
            return found.group(1), found.group(2) == "true", output.stat().st_mtime_ns

        git("init", "--quiet")
        git("add", ".")
        git("commit", "--quiet", "-m", "one")
        yield source, facts, git


def test_a_build_is_told_each_new_commit():
    with checkout() as (source, facts, git):
        commit, dirty, time = facts()
        assert commit == git("rev-parse", "--short=12", "HEAD") and not dirty
        assert facts()[2] == time, "the file was written although nothing changed"
        (source / "CMakeLists.txt").write_text("two\n")
        assert facts()[:2] == (commit, True)
        git("commit", "--quiet", "--all", "-m", "two")
        assert facts()[:2] == (git("rev-parse", "--short=12", "HEAD"), False)


def test_a_tree_without_history_has_no_commit():
    with checkout() as (source, facts, _):
        shutil.rmtree(source / ".git")
        assert facts()[:2] == ("", False)


if __name__ == "__main__":
    sys.exit(cases.run("Install", cases.cases_in(sys.modules[__name__]), sys.argv[2:]))
