#!/usr/bin/env python3
"""Which packages the programs of a build have in them or need, and their licences. Debian's packages know both.

  third_party.py packages PROGRAM...
        prints the packages whose shared libraries the programs load
  third_party.py licences FOLDER [--build BUILD --targets TARGET...] [--copies FOLDER...] [--files FILE...]
        writes an index into FOLDER, and the copyright file of each package:
        - whose headers, static libraries and texts Ninja built into the targets;
        - whose shared libraries the folders of copies have, under the names that they have in the package;
        - of each file.

A file that belongs to no package, and a package without a copyright file, end it with status 1."""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

DOCUMENTATION = "/usr/share/doc"
COMMON = "/usr/share/common-licenses"  # texts that copyright files name instead of repeating them

Foreign = collections.namedtuple("Foreign", "name pattern licence")  # what Debian has no package of

# The licence is a file in BUILD's source folder, or a sentence.
FOREIGN = [
    Foreign("cudnn-frontend", r"/\.deps/cudnn-frontend/", ".deps/cudnn-frontend/LICENSE"),
    Foreign("cuda", r"/cuda(?:-[\d.]+)?/|/lib(?:cuda|cudart|cublas|cublasLt|cudnn\w*|nvrtc|nvJitLink|nccl)\.so|/(?:cudnn|nccl)\w*\.h$",
            "The programs have headers and the static runtime library of NVIDIA's CUDA toolkit in them. NVIDIA's licence agreement is\n"
            "in the toolkit and at https://docs.nvidia.com/cuda/eula/. No shared library of NVIDIA is part of this folder.\n"),
]


class Missing(Exception):
    """What has no package or no licence, one sentence a line."""


def owners(files):
    """The packages of each file: of the path as it is, with links followed, and as it was before /lib became /usr/lib."""
    files_at = collections.defaultdict(set)
    for file in files:
        for path in (file, os.path.realpath(file)):
            files_at[path].add(file)
            files_at[path.removeprefix("/usr")].add(file)
    packages = {file: set() for file in files}
    for package, path in search(sorted(files_at)):
        for file in files_at[path]:
            packages[file].add(package)
    return packages


def owners_of_copies(files):
    """The packages that have a shared library of such a name: a copy tells no more."""
    packages = {os.path.basename(file): set() for file in files}
    for package, path in search(["*-linux-gnu/*.so*"]):
        if os.path.basename(path) in packages:
            packages[os.path.basename(path)].add(package)
    return packages


def search(patterns):
    """(package, path) of each installed file that fits a pattern."""
    for begin in range(0, len(patterns), 500):
        answer = subprocess.run(["dpkg-query", "--search", *patterns[begin:begin + 500]], capture_output=True, text=True, check=False)
        for line in answer.stdout.splitlines():
            names, path = line.rsplit(": ", 1)
            if not names.startswith("diversion by "):
                yield from ((name.split(":")[0], path) for name in names.split(", "))


def foreign(file):
    return next((known for known in FOREIGN if re.search(known.pattern, file)), None)


def loaded(program):
    """The shared libraries that the loader finds for a program."""
    answer = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise Missing(f"{program} is no program that loads libraries: {answer.stderr.strip()}")
    missing = [name for name in re.findall(r"(\S+) => not found", answer.stdout) if not foreign("/" + name)]
    if missing:
        raise Missing(f"{program} needs {', '.join(missing)}, which the loader does not find here")
    return re.findall(r"=> (/\S+)", answer.stdout)


def built_in(build, targets):
    """Headers, static libraries and texts from outside the source and build folders that Ninja built into the targets."""
    build = os.path.realpath(build)
    source = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", pathlib.Path(build, "CMakeCache.txt").read_text(), re.M).group(1)

    def ask(*arguments):
        return subprocess.run(["ninja", "-C", build, "-t", *arguments], capture_output=True, text=True, check=True).stdout.splitlines()

    inputs = [line.strip() for line in ask("inputs", *targets)]
    objects = [name for name in inputs if name.endswith((".o", ".gch"))]
    if not objects:
        raise Missing(f"{build} has no objects of {', '.join(targets)}: build them first")
    headers = [line.strip() for line in ask("deps", *objects) if line.startswith("    ")]
    outside = {os.path.normpath(path) for path in inputs + headers if path.startswith("/") and ".so" not in os.path.basename(path)}
    own = (build + "/", source + "/")
    return source, sorted(path for path in outside if not path.startswith(own) or "/.deps/" in path)


class Licences:
    """Packages, with what of theirs is here and in which way."""

    def __init__(self):
        self.uses = collections.defaultdict(set)  # by package or name of FOREIGN
        self.problems = []

    def add(self, packages_of, use):
        for file, packages in packages_of.items():
            known = foreign(file)
            if not packages and not known:
                self.problems.append(f"{file} belongs to no Debian package: its licence is unknown")
            for name in packages or {known.name} if known else packages:
                self.uses[name].add(use(file))

    def write(self, folder, source):
        """The licence of each package as FOLDER/NAME, and FOLDER/index.txt."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lines = []
        common = set()
        for name in sorted(self.uses):
            text, version = self.licence_of(name, source)
            if text is not None:
                (folder / name).write_bytes(text)
                common |= set(re.findall(COMMON + r"/([\w.-]*\w)", text.decode(errors="replace")))
                lines.append(" ".join([name, version]).strip() + ": " + shortened(sorted(self.uses[name])))
        if self.problems:
            raise Missing("\n".join(self.problems))
        for name in common & set(os.listdir(COMMON)):
            (folder / os.path.basename(COMMON)).mkdir(exist_ok=True)
            shutil.copyfile(pathlib.Path(COMMON, name), folder / os.path.basename(COMMON) / name)
        index = ("Software of others that comes with Strata, one package a line. The file of a package's name is its licence.\n"
                 f"Texts that these files expect in {COMMON} are in {os.path.basename(COMMON)}.\n\n")
        (folder / "index.txt").write_text(index + "\n".join(lines) + "\n")
        return len(lines)

    def licence_of(self, name, source):
        known = next((known for known in FOREIGN if known.name == name), None)
        if known:
            path = pathlib.Path(source or "", known.licence) if "\n" not in known.licence else None
            if path and not path.is_file():
                self.problems.append(f"{path}, the licence of {name}, is missing: run ./test.sh with a network, which fetches it")
                return None, ""
            return (path.read_bytes() if path else known.licence.encode()), ""
        path = pathlib.Path(DOCUMENTATION, name, "copyright")
        if not path.is_file():
            self.problems.append(f"the package {name} has no {path}: its licence is unknown")
            return None, ""
        version = subprocess.run(["dpkg-query", "--show", "--showformat=${Version}", name], capture_output=True, text=True, check=True).stdout
        return path.read_bytes(), version


def shortened(names):
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packages = commands.add_parser("packages")
    packages.add_argument("programs", nargs="+")
    licences = commands.add_parser("licences")
    licences.add_argument("folder")
    licences.add_argument("--build", default="")
    licences.add_argument("--targets", nargs="*", default=[])
    licences.add_argument("--copies", nargs="*", default=[])
    licences.add_argument("--files", nargs="*", default=[])
    chosen = parser.parse_args(arguments)
    found = Licences()
    try:
        if chosen.command == "packages":
            found.add(owners({library for program in chosen.programs for library in loaded(program)}), os.path.basename)
            if found.problems:
                raise Missing("\n".join(found.problems))
            print("\n".join(sorted(set(found.uses) - {known.name for known in FOREIGN})))
            return 0
        source = None
        if chosen.build:
            source, files = built_in(chosen.build, chosen.targets)
            found.add(owners(files), lambda file: "compiled in")
        copies = [str(file) for folder in chosen.copies for file in pathlib.Path(folder).rglob("*.so*") if not file.is_symlink()]
        found.add(owners_of_copies(copies), os.path.basename)
        found.add(owners(chosen.files), os.path.basename)
        shutil.rmtree(chosen.folder, ignore_errors=True)
        print(f"{chosen.folder}: the licences of {found.write(chosen.folder, source)} packages")
        return 0
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
