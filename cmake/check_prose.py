#!/usr/bin/env python3
"""Checks sentences of Markdown pages, of comments and of what the program says: check_prose.py [FILES...]

  check_prose.py                        checks the whole tree against the rules below
  check_prose.py FILES                  prints the statistics and the findings of FILES
  check_prose.py --statistics [COMMIT]  prints the statistics of the tree, or of a commit
  check_prose.py --compare COMMIT       prints the statistics of a commit beside those of the tree
  check_prose.py --shrink               takes what has become right off cmake/prose_exceptions.txt

Rules:
1. No sentence has more than 35 words. A colon or a semicolon does not end a sentence; a list item is a sentence of its own.
2. A page's median is at most 14 words and its 90th percentile at most 25.
3. The phrases of PHRASES do not occur.
4. A line of Markdown has at most 120 characters. Tables and the targets of links do not count. A block below the comment
   <!-- screen: 200x50 --> shows a terminal, and its lines have at most 200.
5. README.md has at most 120 lines and 9 KiB. A chapter of docs/explanation has at most 12 KiB, but for the list of
   invariants, which is generated.

What the program says are the strings of its sources that have five words or more: help texts and messages.
Inline code is one word. Code blocks have no sentences. Headings and cells of tables are checked, but the statistics leave
them out. Comments and strings from before these rules stand in cmake/prose_exceptions.txt with the number of findings of each file.
The list only shrinks: a number that has grown is a finding, and so is one that has become too large.
Exit status 1 and one line per finding."""
import argparse
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tokenize

LONGEST = 35
MEDIAN = 14
PERCENTILE_90 = 25
WIDTH = 120
SCREEN = re.compile(r"<!-- screen: (\d+)x\d+ -->")
FEWEST = 10  # sentences that a page has before its median and 90th percentile say something

LARGEST = [  # pattern of pages, lines and KiB
    (r"README\.md", 120, 9),
    (r"docs/explanation/(?!invariants\.md).*", None, 12),
]

PHRASES = {
    r"likewise": "say what happens once more",
    r"of which": "begin a second sentence",
    r"whoever": "name the reader or the caller",
    r"so many": "name the number",
    r"that which|what is that": "name the thing",
    r"(?:^|(?<=[.;:] ))not so(?= (?:where|for|if|with|in|when|of|on)\b)": "say what happens then",
}
EXCEPTIONS = "cmake/prose_exceptions.txt"
PROGRAM = ("engine/", "base/", "collectives/", "offload/", "optim/")
PATTERNS = ["*.md", "*.h", "*.cpp", "*.cu", "*.cuh", "*.js", "*.py", "*.sh", "*.yaml", "*.cmake", "*CMakeLists.txt", "*.awk"]
LEFT_OUT = ("bench/history/", "bench/results/")  # dated results stay as they were written
ABBREVIATIONS = {"e.g", "i.e", "vs", "cf", "approx", "resp", "dr"}
ENDING_ABBREVIATIONS = {"etc", "al", "no", "fig"}  # which end a sentence if a capital letter follows

PHRASE = [(re.compile(rf"\b(?:{words})\b", re.I), remedy) for words, remedy in PHRASES.items()]
WORD = re.compile(r"[^\s]*[A-Za-z0-9][^\s]*")
# A sentence's end: closing marks may follow the point, and then a blank.
END = re.compile(r"[.?!](?=[\"')\]*_]*(?:\s|$))")
LIST_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s+(?:\[[ x]\]\s+)?|\[[A-Z]\]\s+")


class Unit:
    """A paragraph, a list item, a cell or a heading: pieces of text with the lines on which they stand."""

    def __init__(self, counted=True):
        self.counted = counted
        self.pieces = []

    def add(self, text, line):
        self.pieces.append((text, line))

    def sentences(self):
        """(line, text, text without marks, words) of each sentence."""
        text, starts = "", []
        for piece, line in self.pieces:
            starts.append((len(text), line))
            text += piece.strip() + " "
        shown, text = text, plain(text)
        begin = 0
        for match in list(END.finditer(text)) + [None]:
            if match and not ends_sentence(text, match):
                continue
            end = len(text)
            if match:
                end = match.end()
                while end < len(text) and not text[end].isspace():
                    end += 1
            piece = text[begin:end]
            if piece.strip():
                at = begin + len(piece) - len(piece.lstrip())
                line = next((line for start, line in reversed(starts) if start <= at), 0)
                yield line, " ".join(shown[begin:end].split()), " ".join(piece.replace("\0", "").split()), len(count_words(piece))
            begin = end


def plain(text):
    """Text without marks, of the same length: what is left out becomes NUL, so that places stay."""

    def blank(match, kept=""):
        return kept + "\0" * (len(match.group()) - len(kept))

    text = re.sub(r"<!--.*?-->", blank, text)
    text = re.sub(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", lambda found: blank(found, "`0`" if len(found.group()) > 2 else ""), text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", blank, text)
    text = re.sub(r"\[([^\]]*)\](\([^)\s]*(?:\s[^)]*)?\)|\[[^\]]*\])",
                  lambda found: "\0" + found.group(1) + "\0" * (len(found.group()) - 1 - len(found.group(1))), text)
    text = re.sub(r"<https?://[^>]*>|https?://\S+", lambda found: blank(found, "link"), text)
    return re.sub(r"\*\*|__|</?[a-z]+[^>]*>", blank, text)


def ends_sentence(text, match):
    before = text[:match.start()].replace("\0", "")
    after = text[match.end():].replace("\0", "").lstrip("\"')]*_ \t")
    if match.group() == ".":
        word = re.search(r"[\w.]*$", before).group()
        if word.lower() in ABBREVIATIONS or word.lower() in ENDING_ABBREVIATIONS and not after[:1].isupper() or \
                before.endswith(".") and after[:1].islower():
            return False
        if re.search(r"(?:^|[\s(])[F-HJ-MO-Z]$", before) and after[:1].isupper():  # S. Name
            return False
    return True


def count_words(text):
    return WORD.findall(text.replace("\0", ""))


def markdown_units(text):
    """Units of a page, and (line, characters) of its lines that are too long."""
    units, wide, unit = [], [], None
    fence, comment, width = None, False, WIDTH
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if len(re.sub(r"\]\([^)]*\)|https?://\S+", "", line)) > width and not stripped.startswith("|"):
            wide.append((number, len(line)))
        if fence:
            if stripped.startswith(fence) and not stripped.strip(fence[0]):
                fence, width = None, WIDTH
            continue
        screen = SCREEN.fullmatch(stripped)
        if screen:
            width = int(screen.group(1))
        if comment or stripped.startswith("<!--"):
            comment = "-->" not in line
            unit = None
            continue
        mark = re.match(r"(`{3,}|~{3,})", stripped)
        if mark:
            fence, unit = mark.group(1), None
            continue
        stripped = re.sub(r"^(?:>\s?)+", "", stripped)
        if not stripped or re.fullmatch(r"[-=*_ ]{3,}", stripped):
            unit = None
        elif stripped.startswith("|"):
            unit = None
            for cell in re.sub(r"`[^`]*`", lambda found: found.group().replace("|", "/"), stripped).strip("|").split("|"):
                units.append(Unit(counted=False))
                units[-1].add(cell, number)
        elif stripped.startswith("#"):
            unit = None
            units.append(Unit(counted=False))
            units[-1].add(stripped.lstrip("# "), number)
        else:
            item = LIST_ITEM.match(stripped)
            if item or unit is None:
                unit = Unit()
                units.append(unit)
            unit.add(stripped[item.end():] if item else stripped, number)
    return units, wide


def comments_of_python(text):
    """(line, column, text, alone) of each line of comments and docstrings."""
    first = True
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and token.start == (1, 0) and token.string.startswith("#!"):
                continue
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.start[1], token.string.lstrip("#!"), not token.line[:token.start[1]].strip()
            elif token.type == tokenize.STRING and first and token.string.lstrip("rRbBuU").startswith('"""'):
                lines = token.string.lstrip("rRbBuU").strip('"').splitlines()
                indent = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
                for index, line in enumerate(lines):
                    yield token.start[0] + index, 0, " " + (line[indent:] if index else line), True
            first = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.COMMENT)
    except (tokenize.TokenError, IndentationError):
        return


CPP_TOKEN = re.compile(r'R"([^\s()\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'|/\*.*?\*/|//[^\n]*', re.S)


def comments_of_cpp(text):
    line, at = 1, 0
    for match in CPP_TOKEN.finditer(text):
        if not match.group().startswith("//"):
            continue
        line += text.count("\n", at, match.start())
        at = match.start()
        begin = text.rfind("\n", 0, at) + 1
        yield line, at - begin, re.sub(r"^/+[<!]?", "", match.group()), not text[begin:at].strip()


def string_units(text):
    """Units of the strings of a C++ source; literals that stand next to each other are one."""
    units, end, words = [], None, ""

    def close():
        if len(words.split()) >= 5:
            units.append(Unit(counted=False))
            units[-1].add(re.sub(r"\\[nt\"]", " ", words), line)

    for match in CPP_TOKEN.finditer(text):
        if not match.group().startswith('"'):
            continue
        if end is not None and not text[end:match.start()].strip():
            words += match.group()[1:-1]
        else:
            close()
            line, words = text.count("\n", 0, match.start()) + 1, match.group()[1:-1]
        end = match.end()
    close()
    return units


def comments_of_shell(text):
    here = None
    for number, line in enumerate(text.splitlines(), 1):
        if here:
            here = None if line.strip() == here else here
            continue
        match = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", line)
        if match and not line.lstrip().startswith("#"):
            here = match.group(1)
        match = re.match(r"\s*#(?!!)(.*)", line) or re.search(r"\s\s#(\s[^'\"]*)$", line)
        if match:
            yield number, match.start(1) - 1, match.group(1), not line[:match.start(1) - 1].strip()


NO_PROSE = re.compile(r"\s*(?:NOLINT|clang-format (?:on|off)|namespace\b|shellcheck |pylint:|TODO|IWYU|!/|-{3,}|={3,}|#)")


def comment_units(lines):
    """Units of the comments' lines. A block is lines right below each other that begin in the same column. A row of a table in
    a comment, which has a name, two blanks or more, and a text, is a unit."""
    unit, last, column_of_last, fenced = None, -1, -1, False
    units = []
    for line, column, text, alone in lines:
        joins = alone and line == last + 1 and column == column_of_last
        last, column_of_last = line, column
        if not joins:
            unit, fenced = None, False
        stripped = text.strip()
        if stripped.startswith("```") or re.match(r"[\\@](?:end)?code\b", stripped):
            fenced, unit = not fenced, None
            continue
        indent = len(text) - len(text.lstrip())
        item = LIST_ITEM.match(stripped)
        row = re.match(r"\s{2,}\S.*?\s{2,}(?=\S)", text)
        if row and not fenced:
            unit = Unit()
            units.append(unit)
            unit.add(text[row.end():], line)
            continue
        if fenced or not stripped or NO_PROSE.match(text) or indent >= 5 and unit is None:
            unit = None
            continue
        tag = re.match(r"[\\@](?:param(?:\[\w+\])?\s+\w+|returns?|throws?\s+\w+|brief|note|pre|post)\s*", stripped)
        item = tag or item
        if item or unit is None:
            unit = Unit()
            units.append(unit)
        unit.add(stripped[item.end():] if item else stripped, line)
    return units


class File:
    """What one file's prose is like."""

    def __init__(self, name, text):
        self.name = name
        self.page = name.endswith(".md")
        self.lines = text.count("\n")
        self.bytes = len(text.encode())
        wide = []
        if self.page:
            units, wide = markdown_units(text)
        elif name.endswith(".py"):
            units = comment_units(comments_of_python(text))
        elif name.endswith((".sh", ".yaml", ".cmake", ".txt", ".awk")):
            units = comment_units(comments_of_shell(text))
        else:
            units = comment_units(comments_of_cpp(text))
        strings = string_units(text) if name.endswith(".cpp") and name.startswith(PROGRAM) else []
        self.counts = []  # words of each sentence that the statistics know
        self.said = []  # words of each sentence of strings
        self.likewise = {"counts": 0, "said": 0}  # paragraphs that begin with this word
        self.long = {"counts": 0, "said": 0}  # sentences over the limit
        self.findings = [(line, f"line of {length} characters: wrap it at {WIDTH}") for line, length in wide]
        for unit in units + strings:
            kind = "said" if unit in strings else "counts"
            for index, (line, sentence, text, words) in enumerate(unit.sentences()):
                if words > 1:
                    (self.counts if unit.counted else self.said if kind == "said" else []).append(words)
                self.likewise[kind] += index == 0 and text.lower().startswith("likewise")
                if words > LONGEST:
                    self.long[kind] += 1
                    self.findings.append((line, f"sentence of {words} words: {shown(sentence)}"))
                for pattern, remedy in PHRASE:
                    for match in pattern.finditer(text):
                        self.findings.append((line, f'"{match.group()}": {remedy}: {shown(sentence)}'))
        self.findings.sort()
        for pattern, lines, kibibytes in LARGEST:
            if re.fullmatch(pattern, name):
                if lines and self.lines > lines:
                    self.findings.append((1, f"page of {self.lines} lines: at most {lines}"))
                if self.bytes > kibibytes * 1024:
                    self.findings.append((1, f"page of {self.bytes} bytes: at most {kibibytes} KiB"))
        if self.page and len(self.counts) >= FEWEST:
            if percentile(self.counts, 50) > MEDIAN:
                self.findings.append((1, f"median of {percentile(self.counts, 50)} words per sentence: at most {MEDIAN}"))
            if percentile(self.counts, 90) > PERCENTILE_90:
                self.findings.append((1, f"90th percentile of {percentile(self.counts, 90)} words per sentence: at most {PERCENTILE_90}"))


def shown(sentence):
    return sentence if len(sentence) <= 100 else sentence[:97] + "…"


def percentile(counts, percent):
    """The smallest count that at least so large a part of the counts does not exceed; 0 of none."""
    ordered = sorted(counts)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0


def names_of_tree(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", *PATTERNS],
                            capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in sorted(set(listed)) if not name.startswith(LEFT_OUT) and pathlib.Path(root, name).is_file()]


def files_of_tree(root):
    return [File(name, pathlib.Path(root, name).read_text(errors="replace")) for name in names_of_tree(root)]


def files_of_commit(root, commit):
    archive = subprocess.run(["git", "-C", root, "archive", commit], capture_output=True, check=True).stdout
    files = []
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            if member.isfile() and any(member.name.endswith(pattern[1:]) for pattern in PATTERNS) and \
                    not member.name.startswith(LEFT_OUT):
                files.append(File(member.name, tar.extractfile(member).read().decode(errors="replace")))
    return sorted(files, key=lambda file: file.name)


GROUPS = [
    ("all pages of docs/", lambda name: name.startswith("docs/") and name.endswith(".md")),
    ("headers of engine/", lambda name: name.startswith("engine/") and name.endswith(".h")),
    ("headers", lambda name: name.endswith(".h")),
    ("sources", lambda name: name.endswith((".cpp", ".cu", ".cuh", ".js"))),
    ("scripts and run files", lambda name: name.endswith((".py", ".sh", ".yaml", ".cmake", ".txt", ".awk"))),
]


def row(name, files, kind="counts"):
    counts = [count for file in files for count in getattr(file, kind)]
    return (f"{name:44} {len(counts):9} {percentile(counts, 50):6} {percentile(counts, 90):4} {max(counts, default=0):7} "
            f"{sum(file.long[kind] for file in files):7} {sum(file.likewise[kind] for file in files):8} {sum(file.lines for file in files):7} "
            f"{sum(file.bytes for file in files):9}")


HEAD = (f"{'words per sentence':44} {'sentences':>9} {'median':>6} {'p90':>4} {'longest':>7} {'over ' + str(LONGEST):>7} "
        f"{'Likewise':>8} {'lines':>7} {'bytes':>9}")


def table(files):
    rows = [HEAD] + [row(file.name, [file]) for file in files if file.page]
    rows += [row(name, [file for file in files if chosen(file.name)]) for name, chosen in GROUPS]
    return rows + [row("what the program says", [file for file in files if file.said], "said")]


def read_exceptions(root):
    path = pathlib.Path(root, EXCEPTIONS)
    lines = path.read_text().splitlines() if path.exists() else []
    pairs = [line.split() for line in lines if line and not line.startswith("#")]
    return {name: int(count) for count, name in pairs}


def write_exceptions(root, exceptions):
    path = pathlib.Path(root, EXCEPTIONS)
    head = [line for line in path.read_text().splitlines() if line.startswith("#")] if path.exists() else []
    path.write_text("\n".join(head + [f"{count:3} {name}" for name, count in sorted(exceptions.items())]) + "\n")


def check(root, files):
    exceptions = read_exceptions(root)
    findings = []
    for file in files:
        allowed = exceptions.pop(file.name, 0)
        found = len(file.findings)
        if found > allowed:
            if allowed:
                findings.append(f"{file.name}: {found} findings, but {EXCEPTIONS} allows {allowed}:")
            findings += [f"{file.name}:{line}: {text}" for line, text in file.findings]
        elif found < allowed:
            findings.append(f"{file.name}: {found} findings, but {EXCEPTIONS} allows {allowed}: run cmake/check_prose.py --shrink")
        if allowed and file.page:
            findings.append(f"{EXCEPTIONS} names {file.name}: no page may stand there")
    findings += [f"{EXCEPTIONS} names {name}, which does not exist" for name in exceptions]
    return findings


def shrink(root, files):
    exceptions = read_exceptions(root)
    found = {file.name: len(file.findings) for file in files}
    left = {name: min(count, found.get(name, 0)) for name, count in exceptions.items()}
    write_exceptions(root, {name: count for name, count in left.items() if count})


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("--statistics", nargs="?", const="", metavar="COMMIT")
    parser.add_argument("--compare", metavar="COMMIT")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("files", nargs="*")
    chosen = parser.parse_args(arguments)
    if chosen.files:
        files = [File(name, pathlib.Path(name).read_text(errors="replace")) for name in chosen.files]
        print("\n".join([HEAD] + [row(os.path.relpath(file.name), [file]) for file in files]))
        findings = [f"{file.name}:{line}: {text}" for file in files for line, text in file.findings]
        print("\n".join(findings))
        return bool(findings)
    if chosen.statistics is not None or chosen.compare:
        before = chosen.statistics or chosen.compare
        if before:
            print(before + ":\n" + "\n".join(table(files_of_commit(chosen.root, before))))
        if not chosen.statistics:
            print(("\nThe tree:\n" if before else "") + "\n".join(table(files_of_tree(chosen.root))))
        return 0
    files = files_of_tree(chosen.root)
    if chosen.shrink:
        shrink(chosen.root, files)
    findings = check(chosen.root, files)
    print("\n".join(findings), end="\n" if findings else "")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
