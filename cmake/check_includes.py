#!/usr/bin/env python3
"""Compares #includes with CMake targets and layers: check_includes.py [ROOT]

1. Each target lists exactly the project's libraries whose headers its files include, and exactly the packages.
2. A folder includes only folders of lower layers (docs/explanation/folders.md), so folders form no loop.
3. Headers of wrapped packages stay in the folders that wrap them.
4. The planner knows no run file: engine/plan includes nothing of it (OF_RUN_FILE).

The CMake files are read as text: every branch of an if() counts, generator expressions are the targets they name.
Exit status 1 and one sentence per finding."""
import pathlib
import re
import subprocess
import sys

LAYERS = [
    {"base"},
    {"optim", "offload", "collectives", "engine/config", "engine/input/text"},
    {"engine/device", "engine/input/chat"},
    {"engine/device/cpu", "engine/device/cuda", "engine/device/reference"},
    {"engine/model/graph"},
    {"engine/model/architectures"},
    {"engine/model", "engine/input/data"},
    {"engine/run/checkpoint", "engine/plan/program"},
    {"engine/plan/lower"},
    {"engine/plan/passes"},
    {"engine/plan/cost"},
    {"engine/plan/bound"},
    {"engine/plan/place"},
    {"engine/plan/merge"},
    {"engine/plan/planner"},
    {"engine/run/tune"},
    {"engine/run/execute"},
    {"engine/tools/profile", "engine/tools/report", "engine/run/generate"},
    {"engine/run/assembly"},
    {"engine/tools/cli", "engine/api"},
]
LAYER = {folder: layer for layer, folders in enumerate(LAYERS) for folder in folders}

# Package: the headers that need it, and the folders that may include them (all if none is named).
PACKAGES = {
    "fmt::fmt": (r"fmt/", None),
    "nlohmann_json::nlohmann_json": (r"nlohmann/", None),
    "yaml-cpp": (r"yaml-cpp/", {"engine/config"}),
    "CLI11::CLI11": (r"CLI/", {"engine/tools/cli"}),
    "hwy::hwy": (r"hwy/", {"base", "optim", "collectives", "engine/device/cpu"}),
    "TBB::tbb": (r"oneapi/tbb", {"base"}),
    "DNNL::dnnl": (r"dnnl\.", {"engine/device/cpu"}),
    "OpenMP::OpenMP_CXX": (r"omp\.h", {"engine/device/cpu"}),
    "PkgConfig::hwloc": (r"hwloc\.h", {"base", "engine/device/cuda"}),
    "PkgConfig::xxhash": (r"xxhash\.h", {"base"}),
    "PkgConfig::liburing": (r"liburing\.h", {"offload"}),
    "PkgConfig::oniguruma": (r"oniguruma\.h", {"engine/input/text"}),
    "ICU::uc": (r"unicode/", {"engine/input/text"}),
    "MPI::MPI_C": (r"mpi\.h", {"collectives"}),
    "benchmark::benchmark": (r"benchmark/", set()),
    "CUDA::cudart_static": (r"cuda_runtime|cublasLt", {"engine/device/cuda"}),  # the toolkit's folder of headers comes with it
    "CUDA::nvtx3": (r"nvtx3/", {"engine/device/cuda"}),
}
OF_RUN_FILE = re.compile(r"engine/config/(run_config|\w+_section|run_models|load|loader|describe|keys|searched_keys|common_values)\.h")
# A target and a library whose headers it includes but which it emulates.
EMULATED = {("emulated_kernels", "strata_device_cuda"), ("cuda_emulation_test", "strata_device_cuda"),
            ("emulated_gpu", "strata_device_cuda"), ("emulated_gpu", "CUDA::cudart_static"),
            ("emulated_gpu", "CUDA::nvtx3"), ("gpu_emulation_test", "strata_device_cuda"), ("gpu_emulation_test", "test_devices"),
            ("bench_launches", "strata_device_cuda"),
            ("nccl_emulation_test", "CUDA::cudart_static"), ("nccl_emulation_test", "emulated_gpu")}
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
WORD = re.compile(r"[\w./:${}<>*-]+")


def parent(path):
    return path.rpartition("/")[0]


def layer_folder(path):
    """The folder of LAYERS that a file is in, or None: tests and benchmarks stand above all."""
    folder = parent(path)
    while folder and folder not in LAYER:
        folder = parent(folder)
    return folder or None


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, text=True, check=True).stdout.splitlines()
        self.files = {name for name in listed if (self.root / name).is_file()}
        self.includes = {name: self.read_includes(name) for name in self.files
                         if name.endswith((".h", ".cpp", ".cu", ".cuh"))}

    def read_includes(self, name):
        found = []
        for number, line in enumerate((self.root / name).read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                found.append((number, match.group(1) or match.group(2)))
        return found


class Target:
    def __init__(self, name, file):
        self.name, self.file = name, file
        self.sources, self.links = set(), set()


class Targets:
    """What the CMake files of the tree declare."""

    def __init__(self, tree):
        self.tree, self.by_name, self.stands_for = tree, {}, {}
        for name in sorted(tree.files):
            if name.endswith("CMakeLists.txt") and name != "tests/fuzz/CMakeLists.txt":
                self.read(name)
        # The folder of a library owns all its headers; elsewhere a header belongs to the target that has its source.
        self.owner = {}
        for target in self.by_name.values():
            for source in target.sources:
                self.owner[source] = target.name
                header = re.sub(r"\.(cpp|cu)$", ".h", source)
                if not target.name.endswith("_test"):
                    self.owner.setdefault(header, target.name)
        libraries = {parent(target.file): target.name for target in self.by_name.values()
                     if target.name.startswith("strata_") and not self.stands_for.get(target.name)}
        for name in tree.includes:
            if layer_folder(name) and parent(name) in libraries:
                self.owner[name] = libraries[parent(name)]

    def target(self, name, file):
        return self.by_name.setdefault(name, Target(name, file))

    def glob(self, folder, pattern):
        pattern = pattern.replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
        of_root = pattern.startswith("${CMAKE_SOURCE_DIR}/")
        base = pattern.removeprefix("${CMAKE_SOURCE_DIR}/") if of_root or not folder else folder + "/" + pattern
        regex = re.compile(re.escape(base).replace(r"\*", "[^/]*") + "$")
        return {name for name in self.tree.files if regex.match(name)}

    def read(self, file):
        folder = parent(file)
        text = re.sub(r"#[^\n]*", "", (self.tree.root / file).read_text())
        variables = {}
        for command, arguments in re.findall(r"\b(\w+)\s*\(((?:[^()]|\([^()]*\))*)\)", text):
            words = WORD.findall(re.sub(r"\$<[^ ]*:(\w+)>", r"\1", arguments))
            words = [word for item in words for word in variables.get(item, [item])]
            if command == "set" and words:
                variables["${%s}" % words[0]] = words[1:]
            elif command == "file" and words[:1] == ["GLOB"]:
                variables["${%s}" % words[1]] = ["/" + name for pattern in words[2:] if "*" in pattern
                                                 for name in self.glob(folder, pattern)]
            elif words and "$" not in words[0]:
                self.declare(command, words, file, folder)

    def declare(self, command, words, file, folder):
        def path(word):
            word = word.removeprefix("${CMAKE_SOURCE_DIR}")
            return word[1:] if word.startswith("/") else (folder + "/" if folder else "") + word

        name, rest = words[0], words[1:]
        if command == "strata_library":
            target = self.target("strata_" + name, file)
            target.sources |= {item for item in self.tree.includes if parent(item) == folder}
            target.links |= set(rest) - {"DEPENDS"}
        elif command == "strata_test":
            target = self.target(name + "_test", file)
            target.sources |= self.glob(folder, name + "/*.cpp") | self.glob(folder, name + "/*/*.cpp")
            target.sources -= {path(word) for word in rest}  # WITHOUT
            options = {"FILTER", "LABEL", "LAUNCHES", "OPTIONS", "SUITES"}
            depends = [word for word, before in zip(rest, [""] + rest) if word not in options and before not in options]
            target.links |= set(depends) - {"DEPENDS"}
        elif command == "strata_bench":
            target = self.target(name, file)
            target.sources.add(path(name + ".cpp"))
            target.links |= set(rest) - {"DEPENDS"}
        elif command in ("add_executable", "add_library"):
            target = self.target(name, file)
            if "INTERFACE" in rest:
                self.stands_for[name] = set()
            sources = {path(word) for word in rest if path(word) in self.tree.includes}
            headers = {re.sub(r"\.(cpp|cu)$", ".h", source) for source in sources}
            target.sources |= sources | (headers & set(self.tree.includes))
        elif command == "target_sources":
            target = self.target(name, file)
            target.sources |= {path(word) for word in rest if path(word) in self.tree.includes}
        elif command == "target_link_libraries":
            links = set(rest) - {"PRIVATE", "PUBLIC", "INTERFACE"}
            if name in self.stands_for:
                self.stands_for[name] |= links
            else:
                self.target(name, file).links |= links


class Check:
    def __init__(self, root):
        self.tree = Tree(root)
        self.targets = Targets(self.tree)
        self.findings = []

    def includes_of(self, target):
        """(file, line, header) of each include of the target's files, and of headers that belong to no target."""
        seen, open_files = set(), sorted(target.sources)
        while open_files:
            name = open_files.pop()
            if name in seen or name not in self.tree.includes:
                continue
            seen.add(name)
            for line, header in self.tree.includes[name]:
                yield name, line, header
                if header in self.tree.includes and header not in self.targets.owner:
                    open_files.append(header)

    def check_targets(self):
        for target in self.targets.by_name.values():
            if target.name in self.targets.stands_for or target.name == "strata_options":
                continue
            listed = set(target.links)
            for alias, others in self.targets.stands_for.items():
                if alias in listed:
                    listed |= others
            used = set()
            for name, line, header in self.includes_of(target):
                needed = self.targets.owner.get(header) or next(
                    (package for package, (pattern, _) in PACKAGES.items() if re.match(pattern, header)), None)
                if needed in (None, target.name) or header in target.sources or (target.name, needed) in EMULATED:
                    continue
                if needed not in listed and needed not in used:
                    self.findings.append(f"{name}:{line} includes {header} of {needed}, which {target.name} does not "
                                         f"link: list {needed} in {target.file}")
                used.add(needed)
            for link in sorted(target.links):
                known = link in self.targets.by_name or link in PACKAGES
                parts = self.targets.stands_for.get(link, {link})
                if known and link != "test_program" and not parts & used:
                    self.findings.append(f"{target.name} links {link}, whose headers none of its files include: take "
                                         f"it out of {target.file}")

    def check_layers(self):
        for name, includes in sorted(self.tree.includes.items()):
            folder = layer_folder(name)
            for line, header in includes:
                other = layer_folder(header) if header in self.tree.includes else None
                if folder and header.startswith("tests/"):
                    self.findings.append(f"{name}:{line} includes {header}: only tests include tests")
                if folder and other and folder != other and LAYER[other] >= LAYER[folder]:
                    self.findings.append(f"{name}:{line} includes {header}: {folder} is not above {other} "
                                         "(docs/explanation/folders.md), so move what both need down")
                if name.startswith("engine/plan/") and OF_RUN_FILE.match(header):
                    self.findings.append(f"{name}:{line} includes {header}: the planner is asked by a PlanRequest "
                                         "(engine/plan/place/plan_request.h), so add what it needs there")
                for pattern, folders in PACKAGES.values():
                    if folder and folders is not None and folder not in folders and re.match(pattern, header):
                        self.findings.append(f"{name}:{line} includes <{header}>, which only "
                                             f"{', '.join(sorted(folders)) or 'benchmarks'} may: use what wraps it")

    def run(self):
        self.check_targets()
        self.check_layers()
        for finding in self.findings:
            print(finding)
        return 1 if self.findings else 0


if __name__ == "__main__":
    sys.exit(Check(sys.argv[1] if len(sys.argv) > 1 else ".").run())
