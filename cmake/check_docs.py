#!/usr/bin/env python3
"""Checks that what pages name exists: check_docs.py [--root ROOT] [PAGES...]

In inline code, and in commands and run files of fenced blocks, of README.md, docs/ and the README.md of other folders:
1. `engine/model/graph/unit.h`, or its end from a folder on, or a header's bare name: a file or folder of the repository.
2. `engine/model/graph/unit.h:Unit`: a word of that file. `lower()` and `Unit::name`: words of some source.
3. `train.batch`, `train.batch=8`, `memory: {device: 1GiB}`: keys of the run file.
4. `strata plan RUN.yaml --ranks 4`: a command and its options. `--ranks`: an option of something in the repository.
5. `Placement.*`, `Merge.NeedsNoMore*`: tests of GoogleTest.
Links between pages, and to headings in them, lead somewhere, and mkdocs.yml names every page. Sources name no page that is
gone. docs/explanation/invariants.md is what cmake/invariants.py makes of the tests.
Exit status 1 and one line per finding."""
import argparse
import collections
import fnmatch
import os
import pathlib
import re
import shlex
import subprocess
import sys
import unicodedata

LEFT_OUT = ("bench/history/", "bench/results/")  # dated results stay as they were written
NOVELS = ("examples/text/",)  # whose words name nothing of ours
PLANTED = ("tests/docs/",)  # names what does not exist
SOURCES = (".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".js", ".cmake", ".txt", ".awk")
# Files that exist in every checkout, but not in git.
MADE = ("build", "out", ".deps", ".venv", "my", "models", "data", "logs")
# Parts of names of tensors that begin as keys of the section model do.
TENSORS = {"layers", "embed_tokens", "norm", "decoder", "safetensors", "rotary_emb"}
# Below these keys a run file has names of its user.
FREE = {"model.config", "data.fields", "data.sources", "optimizer.groups", "sweep", "models"}
ENDINGS = {"py", "sh", "json", "jsonl", "bin", "idx", "txt", "yaml", "yml", "md", "h", "cpp", "cu", "html", "safetensors", "csv",
           "pftrace", "pickle", "npy", "pt", "toml", "out", "log", "sbatch"}
# Options of other programs, which pages may name alone: of Slurm, mpirun, GoogleTest, hf and Docker.
FOREIGN_OPTIONS = {"--account", "--array", "--constraint", "--cpu-bind", "--cpus-per-task", "--dependency", "--distribution", "--error",
                   "--exclusive", "--export", "--gpu-bind", "--gpus-per-node", "--gpus-per-task", "--gres", "--job-name",
                   "--kill-on-bad-exit", "--mem", "--mpi", "--nodes", "--ntasks", "--ntasks-per-node", "--output", "--partition",
                   "--requeue", "--signal", "--time", "--allow-run-as-root", "--bind-to", "--host", "--hostfile", "--map-by", "--mca",
                   "--oversubscribe", "--prefix", "--report-bindings", "--tag-output", "--gtest_filter", "--local-dir", "--entrypoint", "--gpus",
                   "--memory", "--security-opt", "--shm-size", "--ulimit"}
# Files and names of other projects, which pages may name.
FOREIGN_FILES = {"core/datasets/indexed_dataset.py"}
FOREIGN_WORDS = set()

Finding = collections.namedtuple("Finding", "page line text")


# --- what there is ---------------------------------------------------------------------------------------------------------

class Repository:
    """What pages may name."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True,
                                text=True, check=True).stdout.splitlines()
        self.files = {name for name in listed if (self.root / name).exists()}
        self.folders = {parent.as_posix() for name in self.files for parent in pathlib.PurePosixPath(name).parents} - {"."}
        self.tops = {name.split("/")[0] for name in self.folders}
        self.by_base = collections.defaultdict(list)
        for name in self.files | self.folders:
            self.by_base[name.rsplit("/", 1)[-1]].append(name)
        self.texts = {}
        self.keys, self.sections = self.read_keys()
        self.commands = self.read_commands()
        self.tests = self.read_tests()
        self._words = self._options = None

    def text(self, name):
        if name not in self.texts:
            self.texts[name] = (self.root / name).read_text(errors="replace")
        return self.texts[name]

    def read_keys(self):
        """All keys of the run file, and all sections, from the tables in engine/config."""
        keys = set()
        for name in self.files:
            if not re.fullmatch(r"engine/config/\w+_keys\.cpp", name):
                continue
            text = self.text(name)
            sections = [(found.start(), *found.groups()) for found in
                        re.finditer(r'SectionKeys<[^;()]*>\s+(\w+)\(keys, "([\w.]+)"', text)]
            for found in re.finditer(r'\b(\w+)\s*\.\s*add\w*(?:<[^;()]*?>)?\(\s*"(\w+)"', text):
                paths = [path for start, variable, path in sections if start < found.start() and variable == found.group(1)]
                if paths:
                    keys.add(f"{paths[-1]}.{found.group(2)}")
        prefixes = {key.rsplit(".", count)[0] for key in keys for count in range(1, key.count(".") + 1)}
        return keys, prefixes | ({"sweep", "models"} if keys else set())

    def read_commands(self):
        """The options of each command of strata that its help lists, from engine/tools/cli/main.cpp."""
        name = "engine/tools/cli/main.cpp"
        if name not in self.files:
            return {}
        text = self.text(name)
        shared = {}  # of a function that adds options to a command that it is given
        commands, variables = {}, {}
        for body in re.split(r"\n(?=[A-Za-z].*\) \{\n)", text):
            function = re.match(r"[^\n]*?(\w+)\((.*)\) \{", body)
            for variable, command in re.findall(r'(?:(\w+)\s*=\s*)?\bapp\.add_subcommand\(\s*"([\w-]+)"', body):
                commands[command] = {"--help", "-h"}
                variables[variable] = command
            options = re.findall(r'(\w+)\s*(?:->|\.)\s*add_(?:option|flag)\w*(?:<[^()]*>)?\(\s*"(-[^"]*)"', body)
            for variable, option in options:
                owner = commands.get(variables.get(variable)) if variable != "app" else None
                if owner is None:
                    owner = shared.setdefault(function.group(1) if function else "", set())
                owner |= set(option.split(","))
            for called, variable in re.findall(r"(add_\w+)\(\*(\w+),", body):
                if variables.get(variable):
                    commands[variables[variable]] |= shared.get(called, set())
        hidden = {variables.get(variable) for variable in re.findall(r'(\w+)->group\(""\)', text)}
        return {command: options for command, options in commands.items() if command not in hidden}

    def read_tests(self):
        """Suite.Case of every test, and the suites' names with their instantiations' prefixes."""
        tests = set()
        for name in self.files:
            if not (name.startswith("tests/") and name.endswith((".cpp", ".h"))):
                continue
            text = self.text(name)
            for suite, case in re.findall(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", text, re.M):
                tests.add(f"{suite}.{case}")
        return tests

    @property
    def words(self):
        if self._words is None:
            self._words = set()
            for name in self.files:
                if name.endswith(SOURCES) and not name.startswith(LEFT_OUT + PLANTED + NOVELS):
                    self._words |= set(re.findall(r"\w+", self.text(name)))
        return self._words

    @property
    def options(self):
        """Options that something in the repository has or gives to others."""
        if self._options is None:
            self._options = set(FOREIGN_OPTIONS).union(*self.commands.values())
            for name in self.files:
                if name.endswith((".py", ".sh", ".cmake")) and not name.startswith(PLANTED) or name == ".ci/run":
                    self._options |= set(re.findall(r"(?<![\w-])--[a-z][\w-]+", self.text(name)))
        return self._options

    def find(self, path):
        """The files and folders that a path, the end of a path, or a pattern stands for."""
        path = path.removeprefix("./").rstrip("/")
        if path in self.files or path in self.folders:
            return [path]
        if re.search(r"[*?{<…]|\b[A-Z]+\b", path):
            pattern = re.sub(r"<[^>]*>|…|\b(?!README\b)[A-Z]{2,}\b|\{[^}]*\}", "*", path)
            names = self.files | self.folders
            return fnmatch.filter(names, pattern) or fnmatch.filter(names, "*/" + pattern)
        names = self.by_base[path.rsplit("/", 1)[-1]] + self.by_base[path.rsplit("/", 1)[-1] + ".cpp"]  # a program by its source
        return [name for name in names if ("/" + name).endswith(("/" + path, "/" + path + ".cpp"))]


# --- what pages have -------------------------------------------------------------------------------------------------------

class Page:
    """A page: its inline code, its fenced blocks, its links and its headings, with their lines."""

    def __init__(self, name, text):
        self.name = name
        self.code, self.blocks, self.links, self.headings, self.ids = [], [], [], [], set()
        fence, block = None, None
        prose = []
        for number, line in enumerate(text.splitlines(), 1):
            stripped = line.strip()
            if fence:
                if stripped.startswith(fence) and not stripped.strip(fence[0]):
                    fence = None
                else:
                    block[2].append(line)
                prose.append("")
                continue
            mark = re.match(r"\s*(`{3,}|~{3,})\s*([\w-]*)", line)
            if mark:
                fence, block = mark.group(1), (number, mark.group(2), [])
                self.blocks.append(block)
                prose.append("")
                continue
            if re.match(r"#{1,6}\s", line):
                self.headings.append(line.lstrip("# ").rstrip("# "))
            self.ids |= set(re.findall(r'\b(?:id|name)="([\w-]+)"', line))
            prose.append(line)
        text = re.sub(r"<!--.*?-->", lambda found: re.sub(r"[^\n]", " ", found.group()), "\n".join(prose), flags=re.S)
        for found in re.finditer(r"(?<!`)(`+)(?!`)([^`]|[^`].*?[^`])\1(?!`)", text, re.S):
            if "\n\n" not in found.group(2):
                self.code.append((text.count("\n", 0, found.start()) + 1, " ".join(found.group(2).split())))
        text = re.sub(r"`[^`\n]*`", lambda found: " " * len(found.group()), text)
        for found in re.finditer(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|\b(?:src|href|srcset)=\"([^\"\s]+)\"", text):
            self.links.append((text.count("\n", 0, found.start()) + 1, found.group(1) or found.group(2)))

    def anchors(self):
        """The anchors that both GitHub and MkDocs give to headings."""
        anchors, seen = set(self.ids), collections.Counter()
        for heading in self.headings:
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
            github = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            mkdocs = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
            mkdocs = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", mkdocs).strip().lower())
            if github == mkdocs and not seen[github]:
                anchors.add(github)
            seen[github] += 1
        return anchors


def yaml_keys(text):
    """(line, dotted key, whether its value is a scalar) of each key of a run file; text is a block or one line of it."""
    stack = []  # (indentation, key)
    lines = text.splitlines()
    index = 0
    while index < len(lines):
        line, number = re.sub(r"(?:^|\s)#.*", "", lines[index]), index + 1
        index += 1
        found = re.match(r"^(\s*)((?:-\s+)*)([\w.*'\"-]+)\s*:(?:\s+(.*))?$", line)
        if not found:
            continue
        indent = len(found.group(1)) + len(found.group(2))
        while stack and stack[-1][0] >= indent:
            stack.pop()
        path = ".".join([key for _, key in stack] + [found.group(3).strip("'\"")])
        value = (found.group(4) or "").strip()
        yield number, path, bool(value) and not value.startswith("{")
        if value.startswith("{"):
            while value.count("{") > value.count("}") and index < len(lines):
                value += " " + re.sub(r"\s#.*", "", lines[index]).strip()
                index += 1
            for key, scalar in flow_keys(value):
                yield number, f"{path}.{key}", scalar
        elif not value:
            stack.append((indent, found.group(3).strip("'\"")))


def flow_keys(text):
    """(dotted key, whether its value is a scalar) of each key of a map in braces; maps in lists are left out."""
    path, lists, pending = [], 0, None
    for token in re.findall(r"'[^']*'|\"[^\"]*\"|[{}\[\],]|[\w.*/=%-]+\s*:(?=\s|$)|[^{}\[\],\s][^{}\[\],]*", text):
        if token == "[":
            lists, pending = lists + 1, None
        elif token == "]":
            lists -= 1
        elif lists:
            continue
        elif token == "{":
            path.append(pending)
            pending = None
        elif token == "}":
            if path:
                path.pop()
            pending = None
        elif token == ",":
            pending = None
        elif token.endswith(":") and pending is None:
            pending = token[:-1].strip()
            yield ".".join([key for key in path if key] + [pending]), True


# --- checks ----------------------------------------------------------------------------------------------------------------

class Checker:
    """Collects what pages name that does not exist."""

    def __init__(self, root):
        self.repository = Repository(root)
        self.root = pathlib.Path(root)
        self.findings = []
        self.page, self.line = "", 0
        self.pages = {name: Page(name, self.repository.text(name)) for name in sorted(self.repository.files)
                      if name.endswith(".md") and not name.startswith(LEFT_OUT)}

    def find(self, text):
        self.findings.append(Finding(self.page, self.line, text))

    def check(self, names):
        for name in names or self.pages:
            page = self.pages[name]
            self.page = name
            for self.line, code in page.code:
                self.check_code(code)
            for line, language, lines in page.blocks:
                self.check_block(line, language, lines)
            for self.line, link in page.links:
                self.check_link(link)
        if not names:
            self.check_site()
            self.check_sources()
            self.check_invariants()
        return self.findings

    # Inline code.

    def check_code(self, code):
        repository = self.repository
        path = re.fullmatch(r"((?:\./)?[\w.<>*{},…-]+(?:/[\w.<>*{},…-]+)*/?)(?::([A-Za-z_]\w*(?:(?:::|\.)\w+)*)(?:\(\))?)?(?::\d+)?", code)
        option = re.fullmatch(r"(--[a-z][\w-]*)(?:[ =].*)?", code)
        key = re.fullmatch(r"([a-z_]+(?:\.[a-z_0-9*]+)+)(?:(?:=|: ).*)?", code)
        if re.search(r"(?:^|[\s/])strata\s+\S|^\./(?:run|test)\.sh\b", code):
            self.check_command(code)
        elif option:
            # Pages on moving from another tool name that tool's options.
            if option.group(1) not in repository.options and not self.page.startswith("docs/how-to/from-"):
                self.find(f"`{option.group(1)}` is no option of strata or of a script")
        elif re.match(r"[a-z_]+: *\{.*\}$", code) and code.split(":")[0] in repository.sections:
            self.line -= 1
            self.check_run_file(code)
        elif key and key.group(1).split(".")[0] in repository.sections and not self.is_no_key(key.group(1)):
            self.check_key(key.group(1))
        elif self.is_test(code):
            self.check_test(code)
        elif path and self.is_path(path.group(1), path.group(2)):
            self.check_path(path.group(1), path.group(2), code)
        elif re.fullmatch(r"\w+(?:::\w+)*\(\)|\w+(?:::\w+)+", code):
            missing = [word for word in re.findall(r"\w+", code) if word not in repository.words and word not in FOREIGN_WORDS]
            if missing:
                self.find(f"`{code}`: no source has the word {missing[0]}")

    def is_path(self, path, symbol):
        parts = path.removeprefix("./").rstrip("/").split("/")
        if parts[0] in MADE or path.startswith("<") or path in FOREIGN_FILES:
            return False
        ending = parts[-1].rsplit(".", 1)[-1] if "." in parts[-1] else ""
        if len(parts) == 1:  # a header's bare name, or a file at the root
            return ending in ("h", "cpp", "cu", "cuh") and parts[-1] != "." + ending or path in self.repository.files or \
                symbol is not None and ending in ENDINGS
        return parts[0] in self.repository.tops or ending in ("h", "cpp", "cu", "cuh", "sh") or \
            ending == "py" and parts[0] in self.repository.by_base

    def check_path(self, path, symbol, code):
        names = self.repository.find(path)
        if not names:
            self.find(f"`{path}` is not in the repository")
        elif re.search(r":\d+$", code):
            self.find(f"`{code}`: name a word of the file, since its lines move")
        elif symbol:
            for word in re.findall(r"\w+", symbol):
                if not any(re.search(rf"\b{word}\b", self.repository.text(name)) for name in names if name in self.repository.files):
                    self.find(f"`{code}`: {names[0]} does not have the word {word}")

    @staticmethod
    def is_no_key(name):
        """Names of files, tensors and tests of ctest that look like keys."""
        parts = name.split(".")
        return parts[-1] in ENDINGS or parts[0] == "model" and parts[1] in TENSORS or "capped" in parts

    def check_key(self, key):
        repository = self.repository
        if any(key == free or key.startswith(free + ".") for free in FREE) or key in repository.keys or key in repository.sections:
            return
        if "*" in key and fnmatch.filter(repository.keys | repository.sections, key):
            return
        self.find(f"`{key}` is no key of the run file")

    def is_test(self, code):
        found = re.fullmatch(r"(?:\w+/)?([A-Z][\w*]*)(?:/[\w*]+)?\.([A-Z*][\w*]*)(?:/\w+)*", code)
        return bool(found) and all("*" in part or re.search(r"[a-z]", part) for part in found.groups())

    def check_test(self, code):
        found = re.fullmatch(r"(?:\w+/)?([A-Z][\w*]*)(?:/[\w*]+)?\.([A-Z*][\w*]*)(?:/\w+)*", code)
        if not fnmatch.filter(self.repository.tests, ".".join(found.groups())):
            self.find(f"`{code}` is no test")

    # Commands and run files.

    def check_block(self, line, language, lines):
        if language in ("sh", "bash", "console", "shell"):
            text = "\n".join(lines)
            number = line
            for command in re.sub(r"\\\n\s*", "\0", text).split("\n"):
                number += 1
                self.line = number
                number += command.count("\0")
                self.check_command(command.replace("\0", " ").strip().removeprefix("$ "))
        elif language == "yaml":
            self.line = line
            self.check_run_file("\n".join(lines))

    def check_command(self, line):
        line = re.sub(r"(?:^|\s)#.*", "", line)
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            words = list(lexer)
        except ValueError:
            words = line.split()
        command, script = None, None
        for index, word in enumerate(words):
            following = words[index + 1] if index + 1 < len(words) else ""
            if re.fullmatch(r"[|&;<>]+", word):
                command, script = None, None
            elif re.fullmatch(r"(?:\S*/)?strata", word) and command is None and "-" not in word and not word.startswith("--"):
                command, script = self.command_named(following), None
            elif word in ("./run.sh", "run.sh"):
                command = "train"
            elif command and word == "--set" or command and word.startswith("--set="):
                key = (word[6:] if "=" in word else following).split("=")[0]
                if re.fullmatch(r"[a-z_]+(?:\.[a-z_0-9]+)*", key):
                    if key.split(".")[0] in self.repository.sections:
                        self.check_key(key)
                    else:
                        self.find(f"`{key}` is no key of the run file")
            elif command and word.startswith("--"):
                if word.split("=")[0] not in self.repository.commands[command]:
                    self.find(f"`strata {command}` has no option {word.split('=')[0]}")
            elif script and word.startswith("--") and not command:
                if word.split("=")[0] not in self.repository.text(script):
                    self.find(f"{script} has no option {word.split('=')[0]}")
            elif "/" in word and word.removeprefix("./").split("/")[0] in self.repository.tops and "=" not in word:
                if not self.repository.find(word):
                    self.find(f"`{word}` is not in the repository")
                elif word.endswith((".py", ".sh")) and not command:
                    script = word.removeprefix("./") if word.removeprefix("./") in self.repository.files else None

    def command_named(self, word):
        """The command of strata that the word behind its name is; None if the word stands for any, or is an option."""
        if word in self.repository.commands:
            return word
        if re.fullmatch(r"[a-z]\w*", word):
            self.find(f"`strata {word}` is no command")
        return None

    def check_run_file(self, text):
        found = list(yaml_keys(text))
        tops = {path for _, path, _ in found if "." not in path}
        if len(tops & self.repository.sections) * 2 <= len(tops):
            return  # another tool's file
        begin = self.line
        for number, path, _ in found:
            self.line = begin + number
            self.check_key(path)
        self.line = begin

    # Links.

    def check_link(self, link):
        if re.match(r"[a-z]+:", link):
            return
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(self.page), path)) if path else self.page
        if target not in self.repository.files | self.repository.folders | {self.page}:
            self.find(f"the link {link} leads nowhere")
        elif anchor and target in self.pages and anchor not in self.pages[target].anchors():
            self.find(f"the link {link} leads to no heading of {target}, or not on both GitHub and the site")

    def check_site(self):
        if "mkdocs.yml" not in self.repository.files:
            return
        self.page, self.line = "mkdocs.yml", 1
        text = self.repository.text("mkdocs.yml")
        listed = set(re.findall(r"[\w/-]+\.md\b", text))
        pages = {name.removeprefix("docs/") for name in self.pages if name.startswith("docs/")}
        for name in sorted(pages - listed):
            self.find(f"the page docs/{name} is not in the list nav")
        for name in sorted(listed - pages):
            self.find(f"the list nav names docs/{name}, which does not exist")

    def check_sources(self):
        for name in sorted(self.repository.files):
            if not name.endswith(SOURCES + (".yaml", ".yml")) or name.startswith(LEFT_OUT + PLANTED) or name == "cmake/check_docs.py":
                continue
            text = self.repository.text(name)
            for found in re.finditer(r"\bdocs/[\w/-]+\.md\b(?:#([\w-]+))?", text):
                path = found.group().split("#")[0]
                self.page, self.line = name, text.count("\n", 0, found.start()) + 1
                if path not in self.repository.files:
                    self.find(f"{path} does not exist")
                elif found.group(1) and found.group(1) not in self.pages[path].anchors():
                    self.find(f"{path} has no heading {found.group(1)}")

    def check_invariants(self):
        script, page = "cmake/invariants.py", "docs/explanation/invariants.md"
        if script not in self.repository.files:
            return
        self.page, self.line = page, 1
        made = subprocess.run([sys.executable, "-B", str(self.root / script), "--print"], capture_output=True, text=True, check=False)
        if made.returncode:
            self.find(made.stderr.strip())
        elif page not in self.repository.files or made.stdout != self.repository.text(page):
            self.find(f"this page is not what the tests say: run {script}")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=str(pathlib.Path(__file__).resolve().parents[1]))
    parser.add_argument("pages", nargs="*")
    chosen = parser.parse_args(arguments)
    findings = Checker(chosen.root).check(chosen.pages)
    for finding in findings:
        print(f"{finding.page}:{finding.line}: {finding.text}")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
