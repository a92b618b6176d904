#!/usr/bin/env python3
"""Runs the commands of README.md and the tutorials from the pages themselves: pages.py [PAGE...]

The fenced blocks of a page run in order, in a fresh folder that is like a user's checkout: build/strata is the program
in $STRATA_PROGRAM (build/strata without it), and ./run.sh trains without building. There is no network, GPU or Python
package. A fence of the language sh runs; others are only shown. HTML comments above a fence change that:

  <!-- test: ARGUMENTS -->           appended to the block's commands train and ./run.sh
  <!-- test COMMAND: ARGUMENTS -->   the same for another command of strata
  <!-- test: skip, REASON -->        the block does not run
  <!-- test: instead COMMAND -->     COMMAND runs in place of the block
  <!-- test: fails -->               the block's last command ends with an error
  <!-- file: NAME -->                the block is written to the file NAME
  <!-- output -->                    the block's lines are found in the last output, in order and without others between

In a block of output, … stands for anything within a line, and a line of … for any lines. Prints as GoogleTest does,
which test.sh counts."""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import cases  # noqa: E402  pylint: disable=wrong-import-position

SECONDS = 300  # that a block may take
MARK = re.compile(r"<!--\s*(?:(test|file)(?:\s+([a-z]+))?:\s*(.*?)|(output))\s*-->")
RUN_SH = """#!/usr/bin/env bash
# Trains as the project's own run.sh does, without building.
run_file=examples/quickstart.yaml
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  run_file=$1
  shift
fi
exec build/strata train "$run_file" "$@"
"""


class PageError(Exception):
    """What is wrong with a page, as a sentence."""


class Block:
    """A fenced block: its language, its text, the line on which it begins and the marks above it."""

    def __init__(self, language, line, marks):
        self.language, self.line, self.marks = language, line, marks
        self.lines = []

    @property
    def text(self):
        return "".join(line + "\n" for line in self.lines)

    def mark(self, kind, word=""):
        """The text of the first mark of that kind whose text begins with the word; None if there is none."""
        for mark, command, text in self.marks:
            if mark == kind and not command and text.startswith(word):
                return text[len(word):].lstrip(", ")
        return None


def blocks_of(page):
    blocks, marks, block, fence = [], [], None, None
    for number, line in enumerate(page.splitlines(), 1):
        stripped = line.strip()
        if block:
            if stripped.startswith(fence) and not stripped.strip(fence[0]):
                block = None
            else:
                block.lines.append(line[indent:] if not line[:indent].strip() else line)
            continue
        opening = re.match(r"(\s*)(`{3,}|~{3,})\s*(\S*)", line)
        mark = MARK.fullmatch(stripped)
        if opening:
            indent, fence = len(opening.group(1)), opening.group(2)
            if not opening.group(3):
                raise PageError(f"line {number}: a block without a language; text for what is only shown")
            block = Block(opening.group(3), number, marks)
            blocks.append(block)
            marks = []
        elif mark:
            kind, command, text, plain = mark.groups()
            marks.append((kind or plain, command or "", text or ""))
        elif stripped.startswith("<!--") and re.match(r"<!--\s*(?:test|file|output)\b", stripped):
            raise PageError(f"line {number}: a mark that nothing knows: {stripped}")
        elif stripped:
            if marks:
                raise PageError(f"line {number}: a mark without a block below it")
    return blocks


def lengthened(text, marks):
    """The block's commands with the arguments of its marks behind them."""
    for kind, command, arguments in marks:
        if kind != "test" or arguments in ("fails",) or arguments.startswith(("skip", "instead ")):
            continue
        command = command or "train"
        starts = rf"strata\s+{command}\b" + (r"|\./run\.sh\b" if command == "train" else "")
        commands = re.split(r"(?<!\\)\n", text)
        changed = []
        for line in commands:
            if re.search(starts, line):
                # Behind the command: before a pipe, a redirection, another command or a comment.
                end = re.search(r"\s*(?:\s#\s.*|\s*(?:\|\|?|&&|;|\s2?>>?|\s&$).*)?$", line, re.S)
                line = f"{line[:end.start()]} {arguments}{line[end.start():]}"
            changed.append(line)
        if changed == commands:
            raise PageError(f"no command of the block is {command}")
        text = "\n".join(changed)
    return text


def pattern_of(line):
    words = " ".join(line.split())
    return re.compile(".*".join(re.escape(part) for part in words.split("…")))


def missing_line(shown, printed):
    """The first of the shown lines that is not found in the printed ones in order; None if all are."""
    printed = [" ".join(line.split()) for line in printed]
    shown = [line for line in (line.strip() for line in shown) if line]
    # Groups of lines that follow each other directly; any lines may stand between groups.
    groups, group = [], []
    for line in shown + ["…"]:
        if line == "…":
            groups += [group] if group else []
            group = []
        else:
            group.append(line)
    printed = [line for line in printed if line]
    at = 0
    for group in groups:
        patterns = [pattern_of(line) for line in group]
        best = 0
        for start in range(at, len(printed)):
            found = 0
            while found < len(group) and start + found < len(printed) and patterns[found].fullmatch(printed[start + found]):
                found += 1
            best = max(best, found)
            if found == len(group):
                at = start + found
                break
        else:
            return group[best]
    return None


def make_checkout(folder, program):
    """What a user has: everything of the project by links, examples to change, and a program that is built."""
    for path in ROOT.iterdir():
        if path.name not in (".git", ".deps", "build", "out", "examples", "run.sh") and not path.name.startswith("build-"):
            (folder / path.name).symlink_to(path)
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "build").mkdir()
    (folder / "build/strata").symlink_to(program)
    (folder / "run.sh").write_text(RUN_SH)
    (folder / "run.sh").chmod(0o755)


def environment_of(folder):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STRATA_", "XDG_", "OMPI_"))}
    return environment | {"HOME": str(folder / ".home"), "PATH": f"{folder}/build:{environment['PATH']}", "COLUMNS": "120",
                          "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                          "OMPI_MCA_rmaps_base_oversubscribe": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def run_block(block, folder, environment):
    """Runs a block of the language sh; returns the lines that it has printed."""
    instead = block.mark("test", "instead ")
    text = instead if instead is not None else lengthened(block.text, block.marks)
    fails = block.mark("test", "fails") is not None
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        try:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=output, stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise PageError(f"the block has not ended after {SECONDS} s") from error
        output.seek(0)
        printed = output.read()
    if (done.returncode != 0) != fails:
        raise PageError(f"the block ends with status {done.returncode}:\n{text}\n--- it prints:\n{printed}")
    return printed.splitlines()


def run_page(page, program):
    """Runs a page's blocks; throws PageError with the line of the block that is wrong."""
    with tempfile.TemporaryDirectory(prefix="strata-page-") as folder:
        folder = pathlib.Path(folder)
        make_checkout(folder, program)
        (folder / ".home").mkdir()
        environment, printed = environment_of(folder), []
        for block in blocks_of(page):
            try:
                name, skip = block.mark("file"), block.mark("test", "skip")
                if name:
                    path = folder / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(block.text)
                elif block.mark("output") is not None:
                    line = missing_line(block.lines, printed)
                    if line is not None:
                        raise PageError(f"this line of output is not printed: {line}\n--- printed is:\n" + "\n".join(printed))
                elif skip is not None:
                    if len(skip.split()) < 2:
                        raise PageError("a block that is skipped needs a reason")
                    printed = []
                elif block.language in ("sh", "bash", "console"):
                    printed = run_block(block, folder, environment)
                elif block.marks:
                    raise PageError(f"a mark for commands above a block of the language {block.language}")
            except PageError as error:
                raise PageError(f"line {block.line}: {error}") from error


def main(names):
    program = pathlib.Path(os.environ.get("STRATA_PROGRAM", ROOT / "build/strata")).resolve()
    if not program.exists():
        print(f"{program} is not built: run ./test.sh")
        return 1
    pages = [pathlib.Path(name) for name in names] or [ROOT / "README.md", *sorted((ROOT / "docs/tutorials").glob("*.md"))]
    tests = {re.sub(r"\W", "_", page.stem): functools.partial(run_page, page.read_text(), program) for page in pages}
    return cases.run("Pages", tests)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
