#!/usr/bin/env python3
"""Finds types that are defined under one qualified name in several files of one program: check_names.py [ROOT]

C++'s one-definition rule is not checked by linkers: of two structs with one name, one's constructors run for both. Types of
anonymous namespaces and local types do not count, nor do files that Highway compiles once per target. A test program is its
folder, tests/support and everything under base/, engine/ and so on. Exit status 1 and a sentence per finding."""
import collections
import pathlib
import re
import subprocess
import sys

TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'
    |\bnamespace\b[^;{=()]*\{|\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?:\[\[[^]]*\]\]\s*)?(?:alignas\([^)]*\)\s*)?
    (?P<name>[A-Za-z_]\w*)\s*(?:final\s*)?(?::[^:;{()][^;{]*)?\{|[{}]""", re.X | re.S)


def types_of(text):
    """(qualified name, line) of each type defined at the level of namespaces or of other types."""
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", lambda found: "\n" * found.group().count("\n"), text, flags=re.M)
    scopes = []  # names; None: anonymous or a block of code, in which nothing counts
    for match in TOKEN.finditer(text):
        word = match.group()
        if word == "}":
            if scopes:
                scopes.pop()
        elif match.group("name"):
            if None not in scopes:
                yield "::".join([scope for scope in scopes if scope] + [match.group("name")]), text.count("\n", 0, match.start()) + 1
            scopes.append(match.group("name"))
        elif word.startswith("namespace"):
            scopes.append(word[len("namespace"):-1].strip().removeprefix("inline ") or None)
        elif word == "{":
            scopes.append(None)


def main(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "*.h", "*.cpp", "*.cu", "*.cuh"], capture_output=True, text=True,
                            check=True).stdout.splitlines()
    places = collections.defaultdict(dict)
    for name in listed:
        path = pathlib.Path(root, name)
        if not path.is_file() or name.endswith("-inl.h") or name.startswith("tests/fuzz/"):
            continue
        text = path.read_text(errors="replace")
        if "foreach_target" in text:
            text = re.sub(r"HWY_BEFORE_NAMESPACE.*?HWY_AFTER_NAMESPACE", "", text, flags=re.S)
        for qualified, line in types_of(text):
            places[qualified].setdefault(name, line)

    def program(name):
        """The programs a file may be part of: '' for all of them."""
        parts = name.split("/")
        return "/".join(parts[:2]) if parts[0] == "tests" and parts[1] != "support" else parts[1] if parts[0] == "bench" else ""

    found = 0
    for qualified, files in sorted(places.items()):
        programs = [program(name) for name in files]
        clashes = [name for name, own in zip(files, programs)
                   if any(other in ("", own) or own == "" for other_name, other in zip(files, programs) if other_name != name)]
        if len(clashes) > 1:
            found = 1
            print(f"{qualified} is defined in " + " and ".join(f"{name}:{files[name]}" for name in clashes) +
                  ": give each its own name, or an anonymous namespace")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
