#!/usr/bin/env python3
"""Compiles files by themselves and has clang-tidy look at them: check_tidy.py [--limit N] FILE...

Sources are parsed by clang-tidy with the flags of build/compile_commands.json (build-form/ is configured if there is none),
headers by the compiler alone, with the flags of a source of their folder. No precompiled header takes part, so what a file
forgets to include is found. Exit status 1 if anything is found."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys


def sources_of(file):
    """The file itself, or those that CMake compiles together by it."""
    if not re.fullmatch(r"unity_\d+_cxx\.cxx", os.path.basename(file)):
        return [file]
    return re.findall(r'^#include "(.+)"', pathlib.Path(file).read_text(), re.MULTILINE)


def commands(root, build):
    """The flags that each source is compiled with, without those of precompiled headers and of GCC alone."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if "nvcc" in " ".join(words[:2]) or entry["file"].endswith(".cu"):
            continue
        while not re.search(r"(\+\+|g\+\+|c\+\+)(-\d+)?$", words[0]):  # launchers
            words.pop(0)
        flags, skip = [], False
        for word, following in zip(words[1:], words[2:] + [""]):
            if skip:
                skip = False
            elif word in ("-o", "-c") or (word == "-include" and following.endswith("cmake_pch.hxx")):
                skip = True
            elif word not in ("-Winvalid-pch", "-fpch-preprocess", "-Wno-maybe-uninitialized"):
                flags.append(word)
        for source in sources_of(entry["file"]):
            found.setdefault(os.path.relpath(source, root), (words[0], flags))
    return found


def run(command, root, text=""):
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, input=text)
    return done.returncode, done.stdout + done.stderr


def check(name, root, known):
    if name in known:
        compiler, flags = known[name]
        code, output = run(["clang-tidy", "--quiet", "--warnings-as-errors=*", name, "--", *flags], root)
        return code, "\n".join(line for line in output.splitlines() if not re.match(r"\d+ warnings? (generated|treated)", line))
    folder = os.path.dirname(name)
    flags = next((value for source, value in known.items() if os.path.dirname(source) == folder), None)
    if flags is None or name.endswith(("-inl.h", ".cuh", ".cu")):
        return 0, ""  # a header of a part that is not built here, or a text that is included in the middle of others
    compiler, flags = flags
    return run([compiler, *flags, "-fsyntax-only", "-x", "c++", "-"], root, f'#include "{name}"\n')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    build = root / "build"
    if not (build / "compile_commands.json").exists():
        build = root / "build-form"
        configured = subprocess.run(["cmake", "-S", root, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                                     "-DSTRATA_CUDA=OFF"], capture_output=True, text=True)
        if configured.returncode:
            sys.exit(configured.stdout + configured.stderr)
    known = commands(root, build)
    # Kernels that are included as C++: clang 14 does not capture their structured bindings.
    chosen = [name for name in arguments.files if name.endswith((".h", ".cpp")) and not name.endswith("/emulated_sources.cpp")]
    if arguments.limit and len(chosen) > arguments.limit:
        print(f"clang-tidy looks at {arguments.limit} of {len(chosen)} changed files: cmake/check_form.sh --all takes every one")
        chosen = chosen[:arguments.limit]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, (code, output) in zip(chosen, pool.map(lambda item: check(item, root, known), chosen)):
            if code:
                failed = 1
                print(f"{name}: mend what clang-tidy or the compiler says of it:\n{output}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
