#!/usr/bin/env python3
"""Checks that passes ask operators, and know none by its name: check_operators.py [ROOT]

1. Concrete rules (classes of engine/model/graph/operators) are named, and their headers included, by three kinds of files: the rules'
   own, those that write graphs down (BUILDERS and architectures), and tests.
2. Nobody outside engine/model/graph/operators finds out a rule's type: no cast, no typeid, no comparison of its name.
3. No rule is an answer of another: no function returns a concrete rule, and no enum lists kinds of rules.

Exit status 1 and one sentence per finding."""
import pathlib
import re
import subprocess
import sys

OPERATORS = "engine/model/graph/operators/"
INTERFACE = {"engine/model/graph/operator.h", "engine/model/graph/operator_forms.h"}
# Files that write nodes of rules that they choose themselves.
BUILDERS = {
    "engine/model/graph/unit_builder.h",    # what architectures write graphs with
    "engine/model/graph/unit_builder.cpp",
    "engine/model/graph/derivation.cpp",    # adds up gradients
    "engine/model/graph/logits_graph.cpp",  # takes rows for a head
    "engine/model/graph/split_unit.cpp",    # puts exchanges between nodes
}
SOURCES = (".h", ".cpp", ".cu", ".cuh")
RULE_CLASS = re.compile(r"\bclass\s+(\w+)\s+(?:final\s*)?:\s*public\s+(?:Gradient)?Operator\b")
ARCHITECTURE = re.compile(r"^const ArchitectureRules k\w+", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+"(%s[^"]+)"' % re.escape(OPERATORS))
NAMED = re.compile(r'\brule(?:\(\)|_)?\s*->\s*name\(\)\s*(?:[!=]=\s*"|\.(?:starts_with|ends_with|contains|find|compare)\()|"\s*[!=]=\s*[\w.>-]*\brule->name\(\)')
KINDS = re.compile(r"\benum\s+(?:class\s+)?(?:Rule|Operator|Node)(?:Kind|Type|Class)\b")
ASK = "ask the rule by a question of engine/model/graph/operator.h instead (docs/contributing/adding.md, An operator)"


def code_of(text, strings=False):
    """The text with blanks for comments and, unless `strings`, for what stands in quotes. Lines stay."""
    def blank(match):
        word = match.group()
        if word.startswith("/") or not strings:
            return re.sub(r"[^\n]", " ", word)
        return word
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


class Check:
    def __init__(self, root):
        listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, text=True, check=True).stdout.splitlines()
        self.texts = {name: (pathlib.Path(root) / name).read_text(errors="replace") for name in listed
                      if name.endswith(SOURCES) and (pathlib.Path(root) / name).is_file()}
        self.rules = {rule for name, text in self.texts.items() if name.startswith(OPERATORS)
                      for rule in RULE_CLASS.findall(code_of(text))}
        names = "|".join(sorted(self.rules)) or r"\b\B"
        self.rule = re.compile(r"\b(?:%s)\b" % names)
        self.cast = re.compile(r"\b(?:dynamic_cast|dynamic_pointer_cast)\s*<[^>]*\b(?:\w*Rule|Operator|GradientOperator)\b"
                               r"|\b(?:static_cast|static_pointer_cast|reinterpret_cast)\s*<[^>]*\b(?:%s)\b|\btypeid\s*\(" % names)
        self.accessor = re.compile(r"\b(?:%s)>?\s*[&*]?\s+[&*]?\w+\s*\([^()]*\)\s*(?:const|\{|;)" % names)
        self.findings = []

    def find(self, name, pattern, text, says):
        for number, line in enumerate(text.splitlines(), 1):
            match = pattern.search(line)
            if match:
                self.findings.append(f"{name}:{number} {says(match)}")

    def builds(self, name):
        return (name in BUILDERS or name.startswith("tests/") or
                (name.startswith("engine/model/architectures/") and bool(ARCHITECTURE.search(self.texts[name]))))

    def check_file(self, name, text):
        code, with_strings = code_of(text), code_of(text, strings=True)
        if name.startswith(OPERATORS):
            if name.endswith(".h"):
                self.find(name, self.accessor, code, lambda match: f"returns a concrete rule ({match.group().split()[0]}): return a value "
                          "of engine/model/graph/operator_forms.h")
            return
        self.find(name, self.cast, code, lambda match: f"finds out a rule's type ({match.group().split('<')[0].strip(' (')}): {ASK}")
        self.find(name, KINDS, code, lambda match: f"lists kinds of rules: {ASK}")
        if name.startswith("tests/"):
            return
        self.find(name, NAMED, with_strings, lambda match: f"tells rules by their names: {ASK}")
        if not self.builds(name):
            self.find(name, INCLUDE, with_strings, lambda match: f"includes {match.group(1)}: {ASK}; a file that writes graphs down "
                      "stands in BUILDERS of cmake/check_operators.py")
            self.find(name, self.rule, code, lambda match: f"names {match.group()}: " +
                      ("the interface knows no rule" if name in INTERFACE else f"{ASK}, or let the rule make what you need"))

    def run(self):
        for name, text in sorted(self.texts.items()):
            self.check_file(name, text)
        for name in sorted(BUILDERS):
            if name in self.texts and not self.rule.search(code_of(self.texts[name])) and \
                    not re.search(INCLUDE.pattern, self.texts[name], re.M):
                self.findings.append(f"{name} names no rule: take it out of BUILDERS in cmake/check_operators.py")
        for finding in self.findings:
            print(finding)
        return 1 if self.findings else 0


if __name__ == "__main__":
    sys.exit(Check(sys.argv[1] if len(sys.argv) > 1 else ".").run())
