#!/usr/bin/env python3
"""Tests the checks of prose, docs and operators, and the test of pages, on planted mistakes: docs_test.py [WORD...]

Runs the cases whose names have one of the words; all without words. Prints as GoogleTest does, which test.sh counts."""
import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "cmake"), str(ROOT / "tests/support")]
import cases  # noqa: E402  pylint: disable=wrong-import-position
import check_docs  # noqa: E402  pylint: disable=wrong-import-position
import check_operators  # noqa: E402  pylint: disable=wrong-import-position
import check_prose  # noqa: E402  pylint: disable=wrong-import-position
import invariants  # noqa: E402  pylint: disable=wrong-import-position
import pages  # noqa: E402  pylint: disable=wrong-import-position

LONG = "a " * 34 + "last."  # a sentence of 35 words
FINE = "A page says one thing in a sentence. "


@contextlib.contextmanager
def tree(**files):
    """A repository of the given files, whose names have __ for a slash and _dot_ for a point."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "--quiet", folder], check=True)
        for name, text in files.items():
            path = pathlib.Path(folder, name.replace("__", "/").replace("_dot_", "."))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        yield folder


def prose(*arguments, **files):
    """The lines that check_prose.py prints for a tree of the files; its status must say whether there are any."""
    with tree(**files) as folder, contextlib.redirect_stdout(io.StringIO()) as output:
        status = check_prose.main(["--root", folder, *arguments])
    assert status == bool(output.getvalue()), output.getvalue()
    return output.getvalue().splitlines()


def has(lines, *texts):
    assert len(lines) == len(texts) and all(text in line for text, line in zip(texts, lines)), lines


def test_sentences_of_35_words_are_allowed():
    has(prose(docs__page_dot_md=LONG, base__file_dot_h=f"/// {LONG}\nint x;\n"))


def test_a_longer_sentence_is_found_in_a_page_and_in_comments():
    text = "More " + LONG
    has(prose(docs__page_dot_md=f"# Title\n\n{FINE}\n{text}\n"), "docs/page.md:4: sentence of 36 words: More a")
    has(prose(base__file_dot_h=f"int x;\n// {text}\n"), "base/file.h:2: sentence of 36 words")
    has(prose(base__file_dot_cpp=f"int x;  // More a\n        // {LONG}\n"), "base/file.cpp:1: sentence of 37 words")
    has(prose(run_dot_sh=f"#!/bin/sh\n# {text}\n"), "run.sh:2: sentence of 36 words")
    has(prose(run_dot_py=f'"""{text}"""\n# {text}\n'), "run.py:1: sentence of 36", "run.py:2: sentence of 36")


def test_colons_and_semicolons_do_not_end_a_sentence_but_list_items_do():
    half = "a " * 17
    has(prose(docs__page_dot_md=f"{half}: {half}; {half}."), "sentence of 51 words")
    has(prose(docs__page_dot_md=f"{half}:\n\n- {half}\n- {half}\n"))
    has(prose(docs__page_dot_md=f"{half}, e.g. {half} i.e. {half}."), "sentence of 53 words")
    has(prose(docs__page_dot_md=f"{half}, etc. {half} no. 5 {half}."), "sentence of 54 words")
    has(prose(docs__page_dot_md=f"{half}, etc. A\n{half} by S. Name. I {half}\n`that`. {half}"))


def test_code_is_one_word_and_blocks_and_strings_have_no_sentences():
    code = "`" + "word " * 40 + "`"
    has(prose(docs__page_dot_md=f"Say\n{code[:100]}`.\n\n```sh\n{'word ' * 20}\n{'word ' * 20}\n```\n"))
    has(prose(tests__file_dot_cpp=f'const char* text = "// More {LONG}";\n'))
    has(prose(base__file_dot_cpp="///     " + "word " * 40 + "\n"))


def test_texts_of_the_program_are_checked():
    half = "a " * 16
    has(prose(engine__a_dot_cpp=f'say("More {half}"\n    "{half} a b c");\n'), "engine/a.cpp:1: sentence of 36 words")
    has(prose(engine__a_dot_cpp=f'say("{half}",\n    "{half} a b c");\n', tests__a_dot_cpp=f'"{half} {half} {half}";\n'))
    has(prose(base__a_dot_cpp='"Of files of which none is there";\n'), '"of which"')


def test_a_cell_and_a_heading_are_checked():
    has(prose(docs__page_dot_md=f"# More {LONG}\n\n| a | More {LONG} |\n|---|---|\n"), "page.md:1: sentence of 36", "page.md:3: sentence of 36")


def test_a_phrase_is_found():
    for phrase in ("likewise", "of which", "whoever", "so many", "what is that"):
        has(prose(docs__page_dot_md=f"Ranks wait, {phrase}, here."), f'docs/page.md:1: "{phrase}"')
        has(prose(base__file_dot_h=f"/// Ranks wait, {phrase}, here."), f'base/file.h:1: "{phrase}"')
    has(prose(docs__page_dot_md="Not so where ranks wait."), '"Not so"')
    has(prose(docs__page_dot_md="A rank is not so fast. The word `likewise` is code."))


def test_a_wide_line_is_found_but_for_tables_and_targets_of_links():
    has(prose(docs__page_dot_md=FINE * 4), "docs/page.md:1: line of 148 characters")
    has(prose(docs__page_dot_md=f"| {FINE * 4} |\n\n[Page](https://example.org/{'long' * 40}).\n"))
    screen = f"<!-- screen: 148x24 -->\n```text\n{FINE * 4}\n```\n"
    has(prose(docs__page_dot_md=screen))
    has(prose(docs__page_dot_md=f"{screen}\n{FINE * 4}\n"), "docs/page.md:6: line of 148 characters")
    has(prose(docs__page_dot_md=screen.replace("148x24", "147x24")), "docs/page.md:3: line of 148 characters")


def test_a_page_of_long_sentences_is_found():
    sentence = "a " * 14 + "last.\n"
    has(prose(docs__page_dot_md=sentence * 10), "docs/page.md:1: median of 15 words")
    sentences = "a last.\n" * 8 + ("a " * 25 + "last.\n") * 2
    has(prose(docs__page_dot_md=sentences), "docs/page.md:1: 90th percentile of 26 words")


def test_a_page_that_is_too_large_is_found():
    text = FINE.strip() + "\n"
    has(prose(README_dot_md=text * 120, docs__explanation__a_dot_md=text * 300))
    has(prose(README_dot_md=text * 121), "README.md:1: page of 121 lines: at most 120")
    has(prose(docs__explanation__a_dot_md=text * 400), "a.md:1: page of 14800 bytes: at most 12 KiB")


def test_the_list_of_exceptions_only_shrinks():
    listed = {"cmake__prose_exceptions_dot_txt": "# Known.\n  1 engine/a.h\n"}
    mistake = "// Likewise.\n"
    has(prose(engine__a_dot_h=mistake, **listed))
    has(prose(engine__a_dot_h=mistake * 2, **listed), "2 findings, but cmake/prose_exceptions.txt allows 1", "a.h:1", "a.h:2")
    has(prose(engine__a_dot_h="// Fine.\n", **listed), "0 findings, but cmake/prose_exceptions.txt allows 1")
    has(prose(engine__b_dot_h="// Fine.\n", **listed), "names engine/a.h, which does not exist")
    has(prose("--shrink", engine__a_dot_h="// Fine.\n", **listed))
    has(prose("--shrink", engine__a_dot_h=mistake * 2, **listed), "2 findings", "a.h:1", "a.h:2")
    has(prose(docs__a_dot_md="Likewise.\n", cmake__prose_exceptions_dot_txt="1 docs/a.md\n"), "no page may stand there")


CHECKER = None


def named(text):
    """What check_docs.py says of a page docs/planted.md with that text, beside those of this repository."""
    global CHECKER  # pylint: disable=global-statement
    CHECKER = CHECKER or check_docs.Checker(ROOT)
    CHECKER.findings = []
    CHECKER.pages["docs/planted.md"] = check_docs.Page("docs/planted.md", text)
    return [f"{finding.line}: {finding.text}" for finding in CHECKER.check(["docs/planted.md"])]


def test_a_wrong_path_is_found():
    has(named("In `engine/model/model.h`, `model/model.h`, `run_config.h`, `engine/model/`, `tests/<folder>/*_test.cpp`, `out/x.h`."))
    has(named("Text.\nIn `engine/model/modle.h`."), "2: `engine/model/modle.h` is not in the repository")
    has(named("In `model/modle.h` and `modle.h`."), "model/modle.h", "modle.h")
    has(named("In `engine/modle/`."), "engine/modle/")
    has(named("```sh\nls\nbuild/strata train \\\n  examples/no.yaml\n```"), "3: `examples/no.yaml`")


def test_a_wrong_symbol_is_found():
    has(named("`engine/config/run_config.h:RunConfig`, `run_config.h:MemorySection`, `std::span`, `verify()`."))
    has(named("`engine/config/run_config.h:RunConfgi`"), "does not have the word RunConfgi")
    has(named("`engine/config/run_config.h:12`"), "name a word of the file")
    has(named("`RunConfig::no_such_name` and `no_such_function()`"), "no_such_name", "no_such_function")


def test_a_wrong_key_is_found():
    has(named("`train.batch`, `train.batch=8`, `train.batch: 8`, `memory: {device: 1GiB, nvme: {path: [a, b], size: 1GiB}}`, `train.samples.*`."))
    has(named("`model.config.anything`, `model.layers.0.mlp`, `train.py`, `data.fields.text`."))
    has(named("`train.batchs`"), "`train.batchs` is no key of the run file")
    has(named("`memory: {devices: 1GiB}`"), "`memory.devices`")
    has(named("```yaml\nmodel: {path: x}\ntrain:\n  steps: 1\n  stepps: 2  # twice\n```"), "5: `train.stepps`")
    has(named("```yaml\ntrain: {samples: {prompts: [a, b], often: 3}}\n```"), "2: `train.samples.often`")
    has(named("```yaml\nbase_model: x\nadapter: lora\nsequence_len: 1\n```"))  # another tool's
    has(named("`strata train RUN.yaml --set train.step=2`"), "`train.step` is no key")
    has(named("```sh\n./run.sh --set 'trane.steps=2'\n```"), "2: `trane.steps`")


def test_a_wrong_command_is_found():
    has(named("`strata plan RUN.yaml --ranks 4`, `build/strata COMMAND --help`, `strata --version`, `--oversubscribe`, `./run.sh my.yaml --fresh`."))
    has(named("`strata trian RUN.yaml`"), "`strata trian` is no command")
    has(named("`build/strata plan RUN.yaml --rnaks 4`"), "`strata plan` has no option --rnaks")
    has(named("```sh\nmpirun -n 2 build/strata train a.yaml --chat | tee --append log\n```"), "`strata train` has no option --chat")
    has(named("`--simulat`"), "`--simulat` is no option")
    has(named("```sh\ncmake/check_form.sh --all\ntests/sanitize.sh --no-such\n```"), "3: tests/sanitize.sh has no option --no-such")


def test_a_wrong_test_is_found():
    has(named("`Placement.ChangesNoBitAndThePlanIsExact`, `Placement.*`, `Float8*.*`, `README.md`, `STRATA.TRAINED`."))
    has(named("`Placement.ChangesEveryBit`"), "is no test")
    has(named("`Placements.*`"), "is no test")


def test_a_wrong_link_is_found():
    has(named("# One thing\n\n[a](#one-thing), [b](../README.md), [c](https://example.org/x), `[d](e.md)`."))
    has(named("[a](#another-thing)"), "leads to no heading of docs/planted.md")
    has(named("[a](missing.md)"), "the link missing.md leads nowhere")
    has(named("Text\n\n[a](../README.md#no-such-heading)"), "3: the link ../README.md#no-such-heading leads to no heading")
    has(named('<img src="images/none.webp">'), "images/none.webp")


def test_keys_and_commands_are_those_of_the_program():
    if "STRATA_PROGRAM" not in os.environ:
        return
    repository = check_docs.Repository(ROOT)

    def said(*arguments):
        return subprocess.run([os.environ["STRATA_PROGRAM"], *arguments], capture_output=True, text=True, check=True).stdout

    keys, path = set(), []
    for line in said("train", "--help-config").splitlines():
        found = re.match(r"( *)([a-z]\w*):(  |$)", line)
        if found and len(found.group(1)) <= 6:
            path[len(found.group(1)) // 2:] = [found.group(2)]
            keys.add(".".join(path))
    known = repository.keys | repository.sections
    assert len(keys) > 100 and keys <= known, keys - known
    assert not known - keys, known - keys
    commands = set(re.findall(r"^  (\w+)  ", said("--help").split("Subcommands:")[1], re.M))
    assert commands == set(repository.commands), commands
    for command in commands:
        options = {option for line in said(command, "--help").splitlines() if line.startswith("  -")
                   for option in line.split()[0].split(",")}
        assert options == repository.commands[command], (command, options ^ repository.commands[command])


RULES = "class SumRule final : public Operator {\n};\nclass SumGradientRule final : public GradientOperator {\n};\n"


def operators(**files):
    """What check_operators.py says of files beside a header with two rules."""
    with tree(engine__model__graph__operators__sum_dot_h=RULES, **files) as folder, contextlib.redirect_stdout(io.StringIO()) as output:
        status = check_operators.Check(folder).run()
    assert status == bool(output.getvalue()), output.getvalue()
    return output.getvalue().splitlines()


def test_types_of_rules_are_found_out_by_nobody():
    for code in ("dynamic_cast<const SumRule*>(rule)", "dynamic_cast<const Rule&>(*rule)", "static_cast<const SumRule&>(*rule)",
                 "std::dynamic_pointer_cast<const SumRule>(rule)", "typeid(*rule) == other", "dynamic_cast<const GradientOperator*>(rule)"):
        has(operators(tests__a_dot_cpp=f"\nauto x = {code};\n"), "tests/a.cpp:2 finds out a rule's type")
    has(operators(engine__plan__a_dot_cpp='if (node.rule->name() == "sum") return;'), "engine/plan/a.cpp:1 tells rules by their names")
    has(operators(engine__plan__a_dot_cpp='if (step.rule->name().starts_with("s")) return;'), "tells rules by their names")
    has(operators(engine__model__graph__a_dot_h="enum class RuleKind : char { sum };"), "engine/model/graph/a.h:1 lists kinds of rules")
    has(operators(base__a_dot_cpp="auto* x = dynamic_cast<const std::bad_alloc*>(&error);", tests__a_dot_cpp='if (rule->name() == "sum") x();',
                  engine__a_dot_cpp="// dynamic_cast<SumRule*>\nauto x = a.rule->name() == b.rule->name();"))


def test_passes_name_no_rule_and_builders_do():
    code = '#include "engine/model/graph/operators/sum.h"\nauto x = std::make_shared<SumGradientRule>();\n'
    has(operators(engine__model__graph__a_dot_cpp=code), "engine/model/graph/a.cpp:1 includes engine/model/graph/operators/sum.h", "a.cpp:2 names SumGradientRule")
    has(operators(engine__model__graph__derivation_dot_cpp=code, tests__a_dot_cpp=code, engine__model__graph__operators__sum_dot_cpp=code,
                  engine__model__architectures__gpt2_dot_cpp="const ArchitectureRules kGpt2 = {};\n" + code))
    has(operators(engine__model__graph__derivation_dot_cpp="int x;"), "engine/model/graph/derivation.cpp names no rule: take it out of BUILDERS")
    has(operators(engine__model__graph__operator_dot_h="class SumRule;"), "operator.h:1 names SumRule: the interface knows no rule")


def test_rules_return_no_rule():
    has(operators(engine__model__graph__operators__a_dot_h="  const SumRule& sum() const { return sum_; }"), "operators/a.h:1 returns a concrete rule")
    has(operators(engine__model__graph__operators__a_dot_h="  std::shared_ptr<const SumRule> sum() const;"), "operators/a.h:1 returns a concrete rule")
    has(operators(engine__model__graph__operators__a_dot_h="  explicit SumRule(int x) : x_(x) {}\n  std::shared_ptr<const Operator> of() const;"))


def marks(text, name="tests/execute/a_test.cpp"):
    """Subject, title, text and test of each comment of an invariant, or what is wrong with one."""
    try:
        return [(mark.subject, mark.title, mark.text, mark.test[0]) for mark in invariants.marks_of(name, text)]
    except invariants.MarkError as error:
        return str(error)


def test_comments_of_invariants_name_their_tests():
    assert marks("// Invariant of ranks: All agree. They have\n// one result.\nTEST_P(Ranks, Agree) {\n") == \
        [("ranks", "All agree", "They have one result.", "Ranks.Agree")]
    assert marks("/// A thing.\n// Why.\n// Invariant: All agree.\n// Invariant (Ranks.*): None waits.\nTEST(Ranks, Agree) {\n") == \
        [(None, "All agree", "", "Ranks.Agree"), (None, "None waits", "", "Ranks.*")]
    assert marks("# Invariant of ranks (all_ranks): All agree. Always.\ndef x():\n", "tests/a/b.py")[0][3] == "all_ranks"
    assert "above no test" in marks("// Invariant: All agree.\nint x;\n")
    assert "is no comment of an invariant" in marks("// Invariant: All agree\nTEST(Ranks, Agree) {\n")


STRATA = """#!/bin/sh
echo "strata $*"
[ "$2" != wrong.yaml ] || { echo "wrong.yaml: no such file" >&2; exit 1; }
[ ! -f "$2" ] || cat "$2"
"""


def page(text):
    """What is wrong with a page whose strata prints its arguments and its run file; empty if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "strata")
        program.write_text(STRATA)
        program.chmod(0o755)
        try:
            pages.run_page(text, program)
        except pages.PageError as error:
            return str(error)
    return ""


def block(text, *marks, language="sh"):
    return "".join(f"<!-- {mark} -->\n" for mark in marks) + f"```{language}\n{text}\n```\n"


def output(text):
    return block(text, "output", language="text")


def test_commands_of_a_page_run_and_a_wrong_one_is_found():
    assert not page(block("build/strata train examples/lora.yaml --fresh\nstrata plan x"))
    assert "line 3: the block ends with status 127" in page("Text.\n\n" + block("build/strate train examples/lora.yaml"))
    assert "ends with status 1" in page(block("build/strata train wrong.yaml"))
    assert "no such file" in page(block("build/strata train wrong.yaml"))
    assert not page(block("build/strata train wrong.yaml", "test: fails") + output("wrong.yaml: no such …"))
    assert "ends with status 0" in page(block("build/strata train", "test: fails"))


def test_output_of_a_page_is_compared():
    command = block("printf '%s\\n' 'loss   1.5 at' last end")
    assert not page(command + output("loss 1.5 at\nlast\nend") + output("loss … at\n…\nend") + output("last"))
    assert "not printed: loss 1.4 at" in page(command + output("loss 1.4 at"))
    assert "not printed: end" in page(command + output("loss 1.5 at\nend"))
    assert "not printed: last" in page(command + output("end\n…\nlast"))


def test_marks_change_the_commands_of_a_page():
    marked = "test: --set train.steps=2"
    assert not page(block("./run.sh  # trains", marked) + output("strata train examples/quickstart.yaml --set train.steps=2\n…"))
    assert not page(block("build/strata train a \\\n  --fresh | cat", marked) + output("strata train a --fresh --set train.steps=2"))
    assert not page(block("strata profile a >b && cat b", "test profile: --steps 1") + output("strata profile a --steps 1"))
    assert "no command of the block is train" in page(block("strata plan a", marked))
    assert not page(block("no-such-program", "test: skip, needs a network"))
    assert "needs a reason" in page(block("no-such-program", "test: skip"))
    assert not page(block("no-such-program", "test: instead echo done") + output("done"))
    assert not page(block("steps: 1", "file: my/run.yaml", language="yaml") + block("strata train my/run.yaml") + output("steps: 1"))


def test_marks_that_nothing_knows_are_found():
    assert "line 1: a mark that nothing knows" in page("<!-- test skip, needs a network -->\n")
    assert not page("<!-- A comment on tests. -->\n")
    assert "a mark without a block" in page("<!-- test: fails -->\nText.\n")
    assert "a block without a language" in page("```\nls\n```\n")
    assert "above a block of the language yaml" in page(block("a: 1", "test: fails", language="yaml"))


if __name__ == "__main__":
    sys.exit(cases.run("Docs", cases.cases_in(sys.modules[__name__]), sys.argv[1:]))
