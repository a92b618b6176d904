#!/usr/bin/env python3
"""Runs the steps of a Dockerfile without Docker: docker_steps.py DOCKERFILE [--work FOLDER] [--run ARGUMENTS] …

Needs root, debootstrap and a network. An image of Debian becomes a fresh root of debootstrap. An image of nvidia/cuda becomes
such a root with this machine's toolkit in it. Each step adds a layer over those before it, and runs there in a chroot.
Layers stay in FOLDER and are used again until the step, a step before it, or a file that it copies has changed.
--run starts the image as `docker run` does, with its entry point, user and folder. --program starts another program there.
Both end with status 0, or this script fails.

It knows FROM, ARG, ENV, WORKDIR, COPY, RUN, USER, ENTRYPOINT, CMD and LABEL, and refuses all else."""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUITES = {"debian:12-slim": "bookworm", "debian:12": "bookworm"}
CUDA_IMAGE = re.compile(r"nvidia/cuda:(\d+\.\d+)\.\d+-cudnn-devel-\w+[\d.]*")
TOOLKIT = "/usr/local/cuda"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"  # of this machine, whose network may have an authority of its own
FROM_THE_MACHINE = ("http_proxy", "https_proxy", "no_proxy")


class Refusal(Exception):
    """A Dockerfile that this script cannot run, with the sentence that says why."""


# --- reading a Dockerfile --------------------------------------------------------------------------------------------------

def instructions(text):
    """(word, arguments) of each instruction, with continued lines joined and comments left out."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*(#|$)", line)]
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        word, _, arguments = line.strip().partition(" ")
        if re.search(r"<<-?\w", arguments):
            raise Refusal(f"here-documents are not known: {line}")
        yield word.upper(), arguments.strip()


def substitute(text, variables):
    """Text with $NAME, ${NAME} and ${NAME:-default} replaced."""
    return re.sub(r"\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})",
                  lambda found: variables.get(found.group(1) or found.group(2), "") or found.group(3) or "", text)


def options_and_words(arguments):
    """The options --name=value before the words, and the words."""
    words = shlex.split(arguments)
    options = {}
    while words and words[0].startswith("--"):
        name, _, value = words.pop(0)[2:].partition("=")
        options.setdefault(name, []).append(value)
    return options, words


def only(options, *known):
    unknown = set(options) - set(known)
    if unknown:
        raise Refusal(f"the option --{sorted(unknown)[0]} is not known")


class Ignored:
    """What a .dockerignore keeps out of the context."""

    def __init__(self, text):
        self.rules = []
        for line in text.splitlines():
            pattern = line.strip()
            if pattern and not pattern.startswith("#"):
                self.rules.append((self.expression(pattern.removeprefix("!")), not pattern.startswith("!")))

    @staticmethod
    def expression(pattern):
        parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        return re.compile("".join(parts.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern.strip("/"))))

    def has(self, path):
        """Whether the file, or a folder that it lies in, is left out."""
        ends = [path] + [parent.as_posix() for parent in pathlib.PurePosixPath(path).parents]
        answer = False
        for expression, left_out in self.rules:
            if any(expression.fullmatch(end) for end in ends):
                answer = left_out
        return answer


class Context:
    """The files that `docker build` would send."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        ignore = self.folder / ".dockerignore"
        ignored = Ignored(ignore.read_text() if ignore.exists() else "")
        self.files = []
        for parent, folders, files in os.walk(self.folder):
            relative = pathlib.Path(parent).relative_to(self.folder)
            folders[:] = sorted(name for name in folders if not ignored.has((relative / name).as_posix()))
            self.files += [(relative / name).as_posix() for name in sorted(files) if not ignored.has((relative / name).as_posix())]

    def select(self, source):
        """(file, name below the destination) of each file that a source of COPY stands for."""
        source = source.strip("/").removeprefix("./") or "."
        expression = Ignored.expression(source)
        found = [(name, name) for name in self.files if source == "."] or \
                [(name, os.path.basename(name)) for name in self.files if expression.fullmatch(name)] or \
                [(name, name[len(source) + 1:]) for name in self.files if name.startswith(source + "/")]
        if not found:
            raise Refusal(f"COPY {source}: the context has no such file, or .dockerignore leaves it out")
        return found


# --- layers ----------------------------------------------------------------------------------------------------------------

def call(*command, **options):
    subprocess.run([str(word) for word in command], check=True, **options)


class Layers:
    """Folders of changes by key, in the work folder; a mount of several is a root."""

    def __init__(self, work):
        self.work = pathlib.Path(work)
        self.roots = []

    def has(self, key):
        return (self.work / key / "done").exists()

    def add(self, key, below, change):
        """Calls change with the root of the layers below, and keeps what it changes there as the layer of the key."""
        folder = self.work / key
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "diff").mkdir(parents=True)
        (folder / "work").mkdir()
        if below:
            root = self.mount(below, folder)
            change(root)
            call("umount", root)
        else:
            change(folder / "diff")
        (folder / "done").touch()

    def mount(self, keys, changed=None):
        """The root of the layers, the last on top; what is written goes to the folder `changed`."""
        root = self.work / f"root-{os.getpid()}-{len(self.roots)}"
        root.mkdir()
        self.roots.append(root)
        lower = ":".join(str(self.work / key / "diff") for key in reversed(keys))
        upper = f",upperdir={changed}/diff,workdir={changed}/work" if changed else ""
        if upper or len(keys) > 1:
            call("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower}{upper}", root)
        else:
            call("mount", "--bind", "-o", "ro", lower, root)
        return root

    def close(self):
        """Takes away all roots, also those that a failed step has left."""
        for root in reversed(self.roots):
            subprocess.run(["umount", "--lazy", "--quiet", root], check=False, stderr=subprocess.DEVNULL)
            root.rmdir()


def run_in(root, command, variables, user="root", folder="/", mounts=()):
    """Runs the command in a chroot, with processes and mounts of its own that end with it."""
    environment = {"PATH": PATH, "HOME": home_of(root, user), **{name: os.environ[name] for name in FROM_THE_MACHINE if name in os.environ}}
    script = ["set -e", 'mount -t proc proc "$0/proc"', 'mount -t sysfs -o ro sysfs "$0/sys"', 'mount --rbind /dev "$0/dev"',
              'mount -t tmpfs tmpfs "$0/run"']
    if os.path.exists(CERTIFICATES):
        script.append(f'touch "$0/run/certificates" && mount --bind {CERTIFICATES} "$0/run/certificates"')
        environment.update(dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE"), "/run/certificates"))
    script += [f'mkdir -p "$0{target}" && mount --bind -o ro {shlex.quote(str(source))} "$0{target}"' for source, target in mounts]
    environment.update(variables)
    assignments = [f"{name}={value}" for name, value in environment.items()]
    script.append('root=$0; exec chroot --userspec="$1" "$root" /usr/bin/env --ignore-environment "${@:2}"')
    call("unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", "\n".join(script), root, user, f"--chdir={folder}",
         *assignments, *command, stdin=subprocess.DEVNULL)


def home_of(root, user):
    for line in (pathlib.Path(root) / "etc/passwd").read_text().splitlines():
        fields = line.split(":")
        if fields[0] == user:
            return fields[5]
    return "/"


# --- stages ----------------------------------------------------------------------------------------------------------------

class Stage:
    """A stage while it is built: its layers, and the settings of its image."""

    def __init__(self, name, keys, parent=None):
        self.name, self.keys = name, list(keys)
        self.variables = dict(parent.variables) if parent else {}
        self.arguments = {}
        self.folder, self.user = (parent.folder, parent.user) if parent else ("/", "root")
        self.entry, self.command = (parent.entry, parent.command) if parent else ([], [])


class Build:
    """Runs a Dockerfile's instructions one after another."""

    def __init__(self, dockerfile, work, given, context=ROOT):
        self.text = pathlib.Path(dockerfile).read_text()
        self.context = Context(context)
        self.layers = Layers(work)
        self.given = given
        self.globals = {}
        self.stages = []
        self.stage = None

    def run(self):
        for word, arguments in instructions(self.text):
            step = getattr(self, "do_" + word.lower(), None)
            if not step:
                raise Refusal(f"the instruction {word} is not known")
            begin = time.monotonic()
            print(f"== {word} {arguments}", flush=True)
            step(arguments)
            if time.monotonic() - begin > 1:
                print(f"   {time.monotonic() - begin:.0f} s", flush=True)
        return self.stage

    def variables(self):
        return {**self.stage.arguments, **self.stage.variables}

    def find_stage(self, name):
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise Refusal(f"no stage above is called {name}")

    def layer(self, content, change):
        """One more layer on the stage, by a change that the content describes."""
        stage = self.stage
        settings = [stage.keys, content, sorted(self.variables().items()), stage.folder, stage.user]
        key = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:20]
        if not self.layers.has(key):
            self.layers.add(key, stage.keys, change)
        stage.keys.append(key)

    def do_from(self, arguments):
        found = re.fullmatch(r"(\S+)(?:\s+AS\s+(\S+))?", substitute(arguments, self.globals), re.I)
        if not found:
            raise Refusal(f"FROM {arguments}: expected an image, and a name for the stage after AS")
        image, name = found.groups()
        parent = next((stage for stage in self.stages if stage.name == image), None)
        self.stage = Stage(name, parent.keys if parent else [], parent)
        self.stages.append(self.stage)
        if not parent:
            self.begin_with(image)

    def begin_with(self, image):
        cuda = CUDA_IMAGE.fullmatch(image)
        suite = SUITES["debian:12-slim"] if cuda else SUITES.get(image)
        if not suite:
            raise Refusal(f"FROM {image}: only {', '.join(SUITES)} and nvidia/cuda's with cuDNN are known")
        self.layer(["debootstrap", suite], lambda root: call("debootstrap", "--variant=minbase", suite, root, stdout=subprocess.DEVNULL))
        if cuda:
            version = "cuda-" + cuda.group(1)
            toolkit = os.path.realpath(TOOLKIT)
            self.layer(["toolkit", toolkit, version], lambda root: add_toolkit(root, toolkit, version))

    def do_arg(self, arguments):
        name, _, default = arguments.partition("=")
        target = self.stage.arguments if self.stage else self.globals
        if name in self.given:
            target[name] = self.given[name]
        elif default:
            target[name] = substitute(default.strip("\"'"), target)
        elif name in self.globals:
            target[name] = self.globals[name]

    def do_env(self, arguments):
        for word in shlex.split(arguments):
            name, equals, value = word.partition("=")
            if not equals:
                raise Refusal(f"ENV {arguments}: expected NAME=VALUE")
            self.stage.variables[name] = substitute(value, self.variables())

    def do_workdir(self, arguments):
        folder = os.path.join(self.stage.folder, substitute(arguments, self.variables()))
        self.layer(["folder", folder], lambda root: (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True))
        self.stage.folder = folder

    def do_copy(self, arguments):
        options, words = options_and_words(substitute(arguments, self.variables()))
        only(options, "from")
        *sources, target = words
        into_folder = target.endswith("/") or len(sources) > 1
        target = os.path.normpath(os.path.join(self.stage.folder, target))
        if "from" in options:
            stage = self.find_stage(options["from"][0])
            self.layer(["copy", stage.keys, words], lambda root: self.copy_from(stage, sources, root / target.lstrip("/"), into_folder))
            return
        files = []
        for source in sources:
            found = self.context.select(source)
            alone = len(found) == 1 and not into_folder and not (self.context.folder / source).is_dir()
            files += [(name, os.path.normpath(target if alone else os.path.join(target, below))) for name, below in found]
        contents = [(name, end, self.digest(name)) for name, end in files]
        self.layer(["copy", contents], lambda root: self.copy_files(files, root))

    def digest(self, name):
        path = self.context.folder / name
        return os.readlink(path) if path.is_symlink() else [path.stat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest()]

    def copy_files(self, files, root):
        for name, end in files:
            path = root / end.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.context.folder / name, path, follow_symlinks=False)

    def copy_from(self, stage, sources, target, into_folder):
        origin = self.layers.mount(stage.keys)
        for source in sources:
            path = origin / source.lstrip("/")
            if path.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                call("cp", "--archive", f"{path}/.", target)
            elif path.is_symlink():
                raise Refusal(f"COPY {source}: builders differ in what they do with a link; name a file or a folder")
            else:
                (target if into_folder else target.parent).mkdir(parents=True, exist_ok=True)
                call("cp", "--archive", path, target)
        call("umount", origin)

    def do_run(self, arguments):
        mounts = []
        while arguments.startswith("--"):
            option, _, arguments = arguments.partition(" ")
            arguments = arguments.strip()
            fields = dict(field.split("=", 1) for field in option.removeprefix("--mount=").split(","))
            if not option.startswith("--mount=") or set(fields) != {"type", "from", "source", "target"} or fields["type"] != "bind":
                raise Refusal(f"RUN {option}: only --mount=type=bind,from=STAGE,source=FOLDER,target=FOLDER is known")
            mounts.append(fields)
        if arguments.startswith("["):
            raise Refusal(f"RUN {arguments}: only commands of the shell are known")
        stage = self.stage
        origins = [self.find_stage(fields["from"]).keys for fields in mounts]

        def change(root):
            bound = [(self.layers.mount(keys) / fields["source"].lstrip("/"), fields["target"]) for keys, fields in zip(origins, mounts)]
            run_in(root, ["/bin/sh", "-c", arguments], self.variables(), stage.user, stage.folder, bound)

        self.layer(["run", arguments, mounts, origins], change)

    def do_user(self, arguments):
        self.stage.user = substitute(arguments, self.variables())

    def do_entrypoint(self, arguments):
        self.stage.entry, self.stage.command = self.list_of("ENTRYPOINT", arguments), []

    def do_cmd(self, arguments):
        self.stage.command = self.list_of("CMD", arguments)

    @staticmethod
    def list_of(word, arguments):
        try:
            return json.loads(arguments)
        except ValueError as error:
            raise Refusal(f'{word} {arguments}: expected a list, ["strata"]') from error

    def do_label(self, arguments):
        only(options_and_words(arguments)[0])

    def start(self, command):
        """Runs a command in the image of the last stage; what it changes goes with it."""
        stage = self.stage
        changed = self.layers.work / f"container-{os.getpid()}"
        for name in ("diff", "work"):
            shutil.rmtree(changed / name, ignore_errors=True)
            (changed / name).mkdir(parents=True)
        root = self.layers.mount(stage.keys, changed)
        try:
            run_in(root, command, stage.variables, stage.user, stage.folder)
        finally:
            call("umount", root)
            shutil.rmtree(changed)


def add_toolkit(root, toolkit, version):
    """Where NVIDIA's image has the toolkit of that version."""
    target = root / "usr/local" / version
    (target.parent / "cuda").symlink_to(version)
    call("cp", "--archive", toolkit, target)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dockerfile")
    parser.add_argument("--work", default="/var/tmp/strata-docker-steps")
    parser.add_argument("--build-arg", action="append", default=[])
    parser.add_argument("--run", action="append", default=[], metavar="ARGUMENTS")
    parser.add_argument("--program", action="append", default=[], metavar="COMMAND")
    chosen = parser.parse_args(arguments)
    if os.environ.get("STRATA_OWN_MOUNTS") != "1":  # mounts that end with this script
        os.environ["STRATA_OWN_MOUNTS"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", __file__, *arguments])
    work = pathlib.Path(chosen.work).resolve()
    work.mkdir(parents=True, exist_ok=True)
    build = Build(chosen.dockerfile, work, dict(argument.split("=", 1) for argument in chosen.build_arg))
    try:
        stage = build.run()
        commands = [stage.entry + (shlex.split(arguments) or stage.command) for arguments in chosen.run]
        for command in commands + [shlex.split(command) for command in chosen.program]:
            print(f"== {shlex.join(command)}", flush=True)
            build.start(command)
    except Refusal as refusal:
        print(f"{chosen.dockerfile}: {refusal}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"{chosen.dockerfile}: the step above failed with status {error.returncode}", file=sys.stderr)
        return 1
    finally:
        build.layers.close()
    folders = [work / key / "diff" for key in stage.keys]
    sizes = subprocess.run(["du", "--summarize", "--total", "-m", *folders], capture_output=True, text=True, check=True).stdout
    print(f"the image has {sizes.split()[-2]} MiB in {len(folders)} layers")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
