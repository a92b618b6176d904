#!/usr/bin/env python3
"""Prints the sources of a program, one a line, with a number: sources.py FILE...

They are the files and what these need of Strata: the sources of every header that one of them includes. A source of a header stands in
the header's folder. It has the header's name, or defines a function that the header declares, or includes the header and has no header
of its own name.

Sources of one number can be compiled as one: no two of them define the same name, and they are at most BATCH."""
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH = 8
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
# Names are defined and declared where a line begins, since clang-format indents nothing in a namespace.
FUNCTION = re.compile(r"^(?:[\w:][^(;={\n]*[\s&*>])?(?![A-Z_]+\()(\w+)\(", re.M)
OTHER = re.compile(r"^(?!namespace)[\w:][^(;={\n]*[\s&*>](\w+)(?:\[.*\])? ?(?:[={]|:(?!:))|^#define (\w+)", re.M)


@functools.cache
def text_of(file):
    return file.read_text()


@functools.cache
def included_by(file):
    return [ROOT / name for name in INCLUDE.findall(text_of(file)) if (ROOT / name).exists()]


@functools.cache
def functions_of(file):
    return set(FUNCTION.findall(text_of(file)))


def names_of(source):
    return functions_of(source) | {name for names in OTHER.findall(text_of(source)) for name in names if name}


def sources_of(header):
    own = header.with_suffix(".cpp")
    elsewhere = functions_of(header) - (functions_of(own) if own.exists() else set())

    def belongs(source):
        return source == own or elsewhere & functions_of(source) or (
            header in included_by(source) and not source.with_suffix(".h").exists())
    return [source for source in header.parent.glob("*.cpp") if belongs(source)]


def with_what_they_need(sources):
    found, to_read = set(), list(sources)
    while to_read:
        file = to_read.pop()
        if file not in found:
            found.add(file)
            to_read += included_by(file) + (sources_of(file) if file.suffix == ".h" else [])
    return sorted(file for file in found if file.suffix == ".cpp")


def batches(sources):
    found = []
    for source in sources:
        names = names_of(source)
        batch = next((batch for batch in found if len(batch[0]) < BATCH and not batch[1] & names), None)
        if batch is None:
            batch = ([], set())
            found.append(batch)
        batch[0].append(source)
        batch[1].update(names)
    return [sources for sources, _ in found]


if __name__ == "__main__":
    for number, together in enumerate(batches(with_what_they_need([pathlib.Path(name).resolve() for name in sys.argv[1:]]))):
        for chosen in together:
            print(number, chosen.relative_to(ROOT))
