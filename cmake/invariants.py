#!/usr/bin/env python3
"""Writes docs/explanation/invariants.md from comments beside the tests: invariants.py [--print]

A comment that ends right above a test names the invariant that the test holds:

  // Invariant of SUBJECT: TITLE. What always holds, in sentences.
  // Invariant: TITLE.

The first form stands once for each invariant. The second is for further tests of the same invariant. With a filter behind
the first words, as in Invariant of SUBJECT (Suite.*), the comment names all tests of the filter. A comment in Python or
CMake begins with #, and always has a filter. With --print the page goes to standard output."""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/explanation/invariants.md"
WIDTH = 120
# Subjects in the order of the page, with what they are about.
SUBJECTS = {
    "placement": "Where data lives, and in which order work is done, is no part of the result.",
    "planning": "The plan says in advance what a run takes.",
    "devices": "Kernels and streams compute the same on every device.",
    "state and checkpoints": "What a run has learned is kept.",
    "failures": "Whatever fails ends in one sentence, and in time.",
    "ranks": "Many ranks train the model that one rank trains.",
    "numbers": "The numbers are those of the libraries that users compare with.",
    "data": "Tokens, targets and their order are those that the run file asks for.",
    "generation": "A trained model writes what other libraries write with the same weights.",
    "several models": "Models that share a machine do not change one another.",
}
HEAD = """# Invariants

An invariant is a promise that tests hold for every change of the code.
`cmake/invariants.py` makes this page from comments above these tests.
The word behind the names of tests is their program. Of `Nvme.*` in execute, all cases run with
`build/tests/execute_test --gtest_filter='*Nvme.*'`.
"""
COMMENT = re.compile(r"((?:^[ \t]*(?://|#)[ \t].*\n)+)(?=(.*))", re.M)
MARK = re.compile(r"Invariant(?: of ([a-z ]+?))?(?: \(([^)]+)\))?: ([^.]+)\.\s*(.*)", re.S)
TEST = re.compile(r"\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)")

Invariant = collections.namedtuple("Invariant", "subject title text")
Mark = collections.namedtuple("Mark", "place subject test title text")


class MarkError(Exception):
    """What is wrong with a comment, as a sentence."""


def marks_of(name, text):
    for comment in COMMENT.finditer(text):
        lines = [re.sub(r"^\s*(?://|#)\s", "", line) for line in comment.group(1).splitlines()]
        for mark in re.split(r"\n(?=Invariant(?: of [a-z ]+)?(?: \([^)]+\))?: )", "\n" + "\n".join(lines))[1:]:
            place = f"{name}:{text.count(chr(10), 0, comment.start()) + 1}"
            found = MARK.fullmatch(" ".join(mark.split()))
            if not found:
                raise MarkError(f"{place}: this is no comment of an invariant: {mark.strip()}")
            subject, test, title, sentences = found.groups()
            below = TEST.match(comment.group(2))
            if not test and not below:
                raise MarkError(f"{place}: the invariant stands above no test: {title}")
            program = name.split("/")[1] if name.count("/") > 1 else ""
            yield Mark(place, subject, (test or f"{below.group(1)}.{below.group(2)}", program), title, sentences)


def files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "tests/*.cpp", "tests/*.py",
                             "tests/CMakeLists.txt"], capture_output=True, text=True, check=True).stdout.split()
    return [name for name in sorted(set(listed)) if not name.startswith("tests/docs/") and (ROOT / name).exists()]


def read():
    """The invariants, and the tests of each title."""
    invariants, tests, marks = {}, collections.defaultdict(list), []
    for name in files():
        text = (ROOT / name).read_text(errors="replace")
        if "Invariant" in text:
            marks += marks_of(name, text)
    for mark in marks:
        if mark.subject:
            if mark.title in invariants:
                raise MarkError(f"{mark.place}: the invariant is there twice: {mark.title}")
            if mark.subject not in SUBJECTS:
                raise MarkError(f"{mark.place}: {mark.subject} is no subject; subjects are {', '.join(SUBJECTS)}")
            if not mark.text:
                raise MarkError(f"{mark.place}: the invariant needs a sentence behind its title: {mark.title}")
            invariants[mark.title] = Invariant(mark.subject, mark.title, mark.text)
            tests[mark.title].insert(0, mark.test)
    for mark in marks:
        if not mark.subject:
            if mark.title not in invariants:
                raise MarkError(f"{mark.place}: no comment says to which subject this invariant belongs: {mark.title}")
            tests[mark.title].append(mark.test)
    return invariants, tests


def wrapped(text, first, rest):
    # Code has no breaks, so that a page can be searched for it.
    text = re.sub(r"`[^`]*`", lambda code: code.group().replace(" ", "\0"), text)
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False,
                         break_on_hyphens=False).replace("\0", " ")


def page():
    invariants, tests = read()
    parts = [HEAD]
    for subject, about in SUBJECTS.items():
        own = sorted(invariant for invariant in invariants.values() if invariant.subject == subject)
        if not own:
            continue
        parts.append(f"\n## {subject.capitalize()}\n\n{about}\n")
        for invariant in own:
            names = collections.defaultdict(list)
            for test, program in tests[invariant.title]:
                names[program].append(f"`{test}`")
            held = ", ".join(" and ".join(own_names) + (f" in {program}" if program else "") for program, own_names in names.items())
            parts.append("\n" + wrapped(f"**{invariant.title}.** {invariant.text}", "- ", "  ") + "\n" +
                         wrapped(f"Tests: {held}.", "  ", "  ") + "\n")
    return "".join(parts)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true")
    chosen = parser.parse_args(arguments)
    try:
        text = page()
    except MarkError as error:
        print(error, file=sys.stderr)
        return 1
    if chosen.print:
        sys.stdout.write(text)
    else:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
