#!/usr/bin/env python3
"""Tests the checks of prose and docs, and the test of pages, on planted mistakes: docs_test.py [WORD...]

Runs the cases whose names have one of the words; all without words. Prints as GoogleTest does, which test.sh counts."""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "cmake"))
import check_prose  # noqa: E402  pylint: disable=wrong-import-position
import pages  # noqa: E402  pylint: disable=wrong-import-position

LONG = "a " * 34 + "last."  # a sentence of 35 words
FINE = "A page says one thing in a sentence. "


@contextlib.contextmanager
def tree(**files):
    """A repository of the given files, whose names have __ for a slash and _dot_ for a point."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "--quiet", folder], check=True)
        for name, text in files.items():
            path = pathlib.Path(folder, name.replace("__", "/").replace("_dot_", "."))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        yield folder


def prose(*arguments, **files):
    """The lines that check_prose.py prints for a tree of the files; its status must say whether there are any."""
    with tree(**files) as folder, contextlib.redirect_stdout(io.StringIO()) as output:
        status = check_prose.main(["--root", folder, *arguments])
    assert status == bool(output.getvalue()), output.getvalue()
    return output.getvalue().splitlines()


def has(lines, *texts):
    assert len(lines) == len(texts) and all(text in line for text, line in zip(texts, lines)), lines


def test_sentences_of_35_words_are_allowed():
    has(prose(docs__page_dot_md=LONG, base__file_dot_h=f"/// {LONG}\nint x;\n"))


def test_a_longer_sentence_is_found_in_a_page_and_in_comments():
    text = "More " + LONG
    has(prose(docs__page_dot_md=f"# Title\n\n{FINE}\n{text}\n"), "docs/page.md:4: sentence of 36 words: More a")
    has(prose(base__file_dot_h=f"int x;\n// {text}\n"), "base/file.h:2: sentence of 36 words")
    has(prose(base__file_dot_cpp=f"int x;  // More a\n        // {LONG}\n"), "base/file.cpp:1: sentence of 37 words")
    has(prose(run_dot_sh=f"#!/bin/sh\n# {text}\n"), "run.sh:2: sentence of 36 words")
    has(prose(run_dot_py=f'"""{text}"""\n# {text}\n'), "run.py:1: sentence of 36", "run.py:2: sentence of 36")


def test_colons_and_semicolons_do_not_end_a_sentence_but_list_items_do():
    half = "a " * 17
    has(prose(docs__page_dot_md=f"{half}: {half}; {half}."), "sentence of 51 words")
    has(prose(docs__page_dot_md=f"{half}:\n\n- {half}\n- {half}\n"))
    has(prose(docs__page_dot_md=f"{half}, e.g. {half} i.e. {half}."), "sentence of 53 words")


def test_code_is_one_word_and_blocks_and_strings_have_no_sentences():
    code = "`" + "word " * 40 + "`"
    has(prose(docs__page_dot_md=f"Say\n{code[:100]}`.\n\n```sh\n{'word ' * 20}\n{'word ' * 20}\n```\n"))
    has(prose(base__file_dot_cpp=f'const char* text = "// More {LONG}";\n'))
    has(prose(base__file_dot_cpp="///     " + "word " * 40 + "\n"))


def test_a_cell_and_a_heading_are_checked():
    has(prose(docs__page_dot_md=f"# More {LONG}\n\n| a | More {LONG} |\n|---|---|\n"), "page.md:1: sentence of 36", "page.md:3: sentence of 36")


def test_a_phrase_is_found():
    for phrase in ("likewise", "of which", "whoever", "so many", "what is that"):
        has(prose(docs__page_dot_md=f"Ranks wait, {phrase}, here."), f'docs/page.md:1: "{phrase}"')
        has(prose(base__file_dot_h=f"/// Ranks wait, {phrase}, here."), f'base/file.h:1: "{phrase}"')
    has(prose(docs__page_dot_md="Not so where ranks wait."), '"Not so"')
    has(prose(docs__page_dot_md="A rank is not so fast. The word `likewise` is code."))


def test_a_wide_line_is_found_but_for_tables_and_targets_of_links():
    has(prose(docs__page_dot_md=FINE * 4), "docs/page.md:1: line of 148 characters")
    has(prose(docs__page_dot_md=f"| {FINE * 4} |\n\n[Page](https://example.org/{'long' * 40}).\n"))


def test_a_page_of_long_sentences_is_found():
    sentence = "a " * 14 + "last.\n"
    has(prose(docs__page_dot_md=sentence * 10), "docs/page.md:1: median of 15 words")
    sentences = "a last.\n" * 8 + ("a " * 25 + "last.\n") * 2
    has(prose(docs__page_dot_md=sentences), "docs/page.md:1: 90th percentile of 26 words")


def test_the_list_of_exceptions_only_shrinks():
    listed = {"cmake__prose_exceptions_dot_txt": "# Known.\n  1 engine/a.h\n"}
    mistake = "// Likewise.\n"
    has(prose(engine__a_dot_h=mistake, **listed))
    has(prose(engine__a_dot_h=mistake * 2, **listed), "2 findings, but cmake/prose_exceptions.txt allows 1", "a.h:1", "a.h:2")
    has(prose(engine__a_dot_h="// Fine.\n", **listed), "0 findings, but cmake/prose_exceptions.txt allows 1")
    has(prose(engine__b_dot_h="// Fine.\n", **listed), "names engine/a.h, which does not exist")
    has(prose("--shrink", engine__a_dot_h="// Fine.\n", **listed))
    has(prose("--shrink", engine__a_dot_h=mistake * 2, **listed), "2 findings", "a.h:1", "a.h:2")
    has(prose(docs__a_dot_md="Likewise.\n", cmake__prose_exceptions_dot_txt="1 docs/a.md\n"), "no page may stand there")


STRATA = """#!/bin/sh
echo "strata $*"
[ "$2" != wrong.yaml ] || { echo "wrong.yaml: no such file" >&2; exit 1; }
[ ! -f "$2" ] || cat "$2"
"""


def page(text):
    """What is wrong with a page whose strata prints its arguments and its run file; empty if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "strata")
        program.write_text(STRATA)
        program.chmod(0o755)
        try:
            pages.run_page(text, program)
        except pages.PageError as error:
            return str(error)
    return ""


def block(text, *marks, language="sh"):
    return "".join(f"<!-- {mark} -->\n" for mark in marks) + f"```{language}\n{text}\n```\n"


def output(text):
    return block(text, "output", language="text")


def test_commands_of_a_page_run_and_a_wrong_one_is_found():
    assert not page(block("build/strata train examples/lora.yaml --fresh\nstrata plan x"))
    assert "line 3: the block ends with status 127" in page("Text.\n\n" + block("build/strate train examples/lora.yaml"))
    assert "ends with status 1" in page(block("build/strata train wrong.yaml"))
    assert "no such file" in page(block("build/strata train wrong.yaml"))
    assert not page(block("build/strata train wrong.yaml", "test: fails") + output("wrong.yaml: no such …"))
    assert "ends with status 0" in page(block("build/strata train", "test: fails"))


def test_output_of_a_page_is_compared():
    command = block("printf '%s\\n' 'loss   1.5 at' last end")
    assert not page(command + output("loss 1.5 at\nlast\nend") + output("loss … at\n…\nend") + output("last"))
    assert "not printed: loss 1.4 at" in page(command + output("loss 1.4 at"))
    assert "not printed: end" in page(command + output("loss 1.5 at\nend"))
    assert "not printed: last" in page(command + output("end\n…\nlast"))


def test_marks_change_the_commands_of_a_page():
    marked = "test: --set train.steps=2"
    assert not page(block("./run.sh  # trains", marked) + output("strata train examples/quickstart.yaml --set train.steps=2\n…"))
    assert not page(block("build/strata train a \\\n  --fresh | cat", marked) + output("strata train a --fresh --set train.steps=2"))
    assert not page(block("strata profile a >b && cat b", "test profile: --steps 1") + output("strata profile a --steps 1"))
    assert "no command of the block is train" in page(block("strata plan a", marked))
    assert not page(block("no-such-program", "test: skip, needs a network"))
    assert "needs a reason" in page(block("no-such-program", "test: skip"))
    assert not page(block("no-such-program", "test: instead echo done") + output("done"))
    assert not page(block("steps: 1", "file: my/run.yaml", language="yaml") + block("strata train my/run.yaml") + output("steps: 1"))


def test_marks_that_nothing_knows_are_found():
    assert "line 1: a mark that nothing knows" in page("<!-- test skip, needs a network -->\n")
    assert not page("<!-- A comment on tests. -->\n")
    assert "a mark without a block" in page("<!-- test: fails -->\nText.\n")
    assert "a block without a language" in page("```\nls\n```\n")
    assert "above a block of the language yaml" in page(block("a: 1", "test: fails", language="yaml"))


def main(words):
    cases = [(name.removeprefix("test_"), case) for name, case in globals().items() if name.startswith("test_")]
    cases = [(name, case) for name, case in cases if not words or any(word in name for word in words)]
    begin, failed = time.monotonic(), []
    for name, case in cases:
        print(f"[ RUN      ] Docs.{name}", flush=True)
        start = time.monotonic()
        try:
            case()
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc(file=sys.stdout)
            failed.append(name)
        result = "[  FAILED  ]" if name in failed[-1:] else "[       OK ]"
        print(f"{result} Docs.{name} ({1000 * (time.monotonic() - start):.0f} ms)", flush=True)
    print(f"[==========] {len(cases)} tests from 1 test suite ran. ({1000 * (time.monotonic() - begin):.0f} ms total)")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
