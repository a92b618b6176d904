"""Random small templates: expressions of all operators, filters, tests and methods on values of all types, and tags around
them. Most are errors in some way or another; what is not must render as in the original."""
import json

import jinja2
from jinja2 import nodes

TEXTS = ["a", "Hello World", "", " x \n", "äöü ß", "世界", "1", "1.5", "a,b,c", "it's", "say \"hi\"", "line\nbreak", "Ǆ ǆ Σς", "tab\t",
         "{}", "%s and %d", "🙂", "abcabc", "ABC", "-3", "0x1F", " 1_000 ", "nan", "<b>&"]
NAMES = ["text", "number", "real", "flag", "nothing", "items", "words", "table", "missing", "nested", "empty", "big", "ns"]
VARIABLES = {"text": "Hello, World", "number": 7, "real": 2.5, "flag": True, "nothing": None, "items": [3, 1, 2, 1], "words": ["b", "A", "c", "a"],
             "table": {"b": 1, "a": {"x": [1, 2]}, "items": "shadow", "name": "n"}, "empty": [], "big": 10**15,
             "nested": [{"name": "x", "value": 2, "on": True}, {"name": "Y", "value": 1}, {"name": "z", "value": None, "on": False}]}
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">", "<=", ">=", "and", "or", "in", "not in"]
FILTERS = ["length", "count", "first", "last", "join", "join(', ')", "join('-', attribute='name')", "upper", "lower", "title", "capitalize", "trim", "trim('a')",
           "replace('a', 'Z')", "replace('', '.')", "replace('l', 'L', 1)", "default('D')", "default('D', true)", "d", "list", "list", "items|list",
           "map('upper')|list", "map(attribute='name')|list", "map(attribute='on', default='?')|list", "map('length')|list", "selectattr('on')|list",
           "selectattr('name', 'equalto', 'x')|list", "selectattr('value', '>', 1)|list", "rejectattr('on')|map(attribute='name')|join", "select|list", "select('odd')|list",
           "reject('string')|list", "reject|list", "unique|list", "sort", "sort(reverse=true)", "sort(attribute='name')", "sort(case_sensitive=true)", "string",
           "int", "int(5)", "int(0, 16)", "float", "float(1.5)", "indent", "indent(2, true)", "indent('> ', blank=true)", "safe", "dictsort", "dictsort(by='value')",
           "dictsort(reverse=true)", "reverse|list", "reverse", "sum", "sum(attribute='value')", "sum(start=3)", "max", "min", "round", "round(1)", "round(2, 'floor')",
           "abs", "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "tojson(indent=1, sort_keys=true)", "batch(2)|list",
           "center(9)", "truncate(5)", "truncate(6, true, '!')", "wordcount", "format(1, 2)", "e", "escape", "batch(3, 0)|list|length", "map('int')|sum"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "even", "odd",
         "lower", "upper", "callable", "divisibleby 3", "divisibleby(2)", "equalto 7", "eq('a')", "ne 1", "lt 3", "gt(2)", "ge 7", "le 7", "in [1, 7, 'a']", "in 'abc'", "sameas true",
         "sameas none", "escaped", "filter", "test"]
METHODS = ["strip()", "lstrip()", "rstrip()", "strip('a ')", "split()", "split(',')", "split(',', 1)", "split(' ', maxsplit=1)", "rsplit(',', 1)", "rsplit(None, 1)", "split(None, 1)", "splitlines()",
           "splitlines(true)", "startswith('a')", "startswith(('a', 'H'))", "endswith('c')", "endswith('')", "startswith('b', 1)", "replace('a', 'x')",
           "replace('a', 'x', 1)", "upper()", "lower()", "title()", "capitalize()", "swapcase()", "join(['x', 'y'])", "join(words)", "find('b')", "rfind('b')", "find('zz')",
           "find('', 3)", "index('b')", "count('a')", "count('')", "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()", "islower()", "istitle()", "isnumeric()", "isdecimal()",
           "zfill(6)", "center(9, '*')", "ljust(5)", "rjust(5, '.')", "removeprefix('a')", "removesuffix('c')", "partition(',')", "rpartition(',')", "format(1, x=2)",
           "items()", "keys()", "values()", "get('a')", "get('zz', 'none')", "get('b')", "items()|list", "keys()|list", "values()|list|length", "copy()", "pop()", "append(1)",
           "index(1)", "update({})", "setdefault('a')", "nosuch()"]
ATTRIBUTES = ["name", "a", "a.x", "items", "nosuch", "0", "x.0", "upper", "value"]
SLICES = ["[0]", "[-1]", "[1:]", "[:-1]", "[::-1]", "[1:3]", "[::2]", "[-2:]", "[5:1:-2]", "[100]", "['name']", "['a']", "['items']", "[none:2]", "[:]", "[0:0]", "[true]", "[-100:100]"]
STATEMENTS = [
    "{% for x in EXPR %}{{ loop.index }}{{ x }}{{ ',' if not loop.last }}{% else %}none{% endfor %}",
    "{% for x in EXPR if x %}[{{ x }}|{{ loop.revindex0 }}|{{ loop.length }}|{{ loop.previtem }}|{{ loop.nextitem is defined }}]{% endfor %}",
    "{% for k, v in EXPR %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in (EXPR)|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for x in EXPR %}{% if loop.first %}{% continue %}{% endif %}{% if loop.index > 2 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% if EXPR %}yes{% elif EXPR %}maybe{% else %}no{% endif %}",
    "{% set v = EXPR %}{{ v }}{% set v %}<{{ v }}>{% endset %}{{ v }}",
    "{% set a, b = EXPR, EXPR %}{{ a ~ b }}",
    "{% set n = namespace(x=EXPR) %}{% for i in range(3) %}{% set n.x = [n.x, i] %}{% endfor %}{{ n.x }}",
    "{% macro m(a, b=EXPR, c='c') %}{{ a }}/{{ b }}/{{ c }}{{ caller() if caller }}{% endmacro %}{{ m(EXPR) }}{{ m(1, c=EXPR) }}{% call m(EXPR) %}inside{% endcall %}",
    "{% filter upper %}x{{ EXPR }}{% endfilter %}",
    "{% with q = EXPR %}{{ q }}{% endwith %}{{ q }}",
    "{%- set x = 1 -%}\n  {% for i in range(2) %}\n    {% set x = x + i %}{{ x }}\n  {% endfor %}\n{{ x }} {#- gone -#} {{ EXPR }}\n",
    "{{ EXPR if EXPR else EXPR }}", "{{ EXPR if EXPR }}", "{{ not EXPR }}", "{{ -EXPR }}", "{{ EXPR < EXPR < EXPR }}",
    "  {%+ if EXPR +%}\n  a\n  {% endif -%}\n b\n{% raw %}{{ x }}{% endraw %}\n{{- EXPR -}}\n",
    "{{ [EXPR, EXPR] }}", "{{ (EXPR,) }}", "{{ {'k': EXPR, 2: EXPR} }}", "{{ dict(EXPR, a=EXPR) }}", "{{ [EXPR, EXPR]|tojson }}", "{{ '%s|%r' % (EXPR, EXPR) }}",
    "{{ '{} {}'.format(EXPR, EXPR) }}", "{{ range(EXPR)|list }}", "{{ (EXPR) is defined and (EXPR) is not none }}",
]


def expression(rng, depth):
    kind = rng.random()
    if depth == 0 or kind < 0.15:
        leaf = rng.random()
        if leaf < 0.6:
            return rng.choice(NAMES)
        if leaf < 0.8:
            return json.dumps(rng.choice(TEXTS), ensure_ascii=False)
        return rng.choice(["0", "1", "-2", "3.0", "1e3", "0.1", "true", "none", "[]", "{}", "[1, 'a']", "{'a': 1}", "(1, 2)", "10 ** 3", "2 ** -1", "1e16", "1.5e-7", "7 // 2",
                           "-7 // 2", "-7 % 3", "7.5 % 2", "1 / 3"])
    inner = expression(rng, depth - 1)
    if kind < 0.4:
        return f"{inner}|{rng.choice(FILTERS)}"
    if kind < 0.55:
        return f"({inner}).{rng.choice(METHODS)}"
    if kind < 0.62:
        return f"({inner}).{rng.choice(ATTRIBUTES)}"
    if kind < 0.72:
        return f"({inner}){rng.choice(SLICES)}"
    if kind < 0.8:
        return f"(({inner}) is {rng.choice(['', 'not '])}{rng.choice(TESTS)})"
    return f"({inner} {rng.choice(BINARY)} {expression(rng, depth - 1)})"


def slices_constant(template):
    """Whether Jinja computes a slice when it compiles: what has none is undefined then, and an error else."""
    def is_constant(node):
        try:
            node.as_const()
            return True
        except nodes.Impossible:
            return False
    tree = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(template)
    return any(isinstance(item.arg, nodes.Slice) and is_constant(item.node) for item in tree.find_all(nodes.Getitem))


def template(rng):
    while True:
        made = any_template(rng)
        if not slices_constant(made):
            return made


def any_template(rng):
    if rng.random() < 0.25:
        return statements(rng, 3, rng.choice([2, 3, 4, 5]))
    if rng.random() < 0.55:
        return "{{ " + expression(rng, rng.choice([1, 1, 2, 3])) + " }}"
    text = rng.choice(STATEMENTS)
    while "EXPR" in text:
        text = text.replace("EXPR", expression(rng, rng.choice([0, 1, 1, 2])), 1)
    return text


NAMES_OF_SCOPES = ["text", "number", "c"]  # the last is none of the variables


def statements(rng, depth, count=None):
    return "".join(statement(rng, depth) for _ in range(count or rng.choice([1, 2, 3])))


def statement(rng, depth):
    """Sets and reads few names in scopes within scopes."""
    def name():
        return rng.choice(NAMES_OF_SCOPES)

    def body():
        return statements(rng, depth - 1)
    kind = rng.random()
    if depth == 0 or kind < 0.35:
        return "{{ " + name() + " }}."
    if kind < 0.55:
        mark = rng.randrange(100)
        return "{% set " + name() + " = " + rng.choice([f"'{mark}'", f"{name()} ~ '{mark}'"]) + " %}"
    if kind < 0.67:
        parts = [rng.choice(["flag", "nothing", "text"]) for _ in range(rng.choice([1, 1, 2]))]
        tests = "{% if " + "".join(part + " %}" + body() + "{% elif " for part in parts)[:-len("{% elif ")]
        return tests + rng.choice(["", "{% else %}" + body()]) + "{% endif %}"
    if kind < 0.8:
        condition = rng.choice(["", " if " + name()])
        return ("{% for " + rng.choice(NAMES_OF_SCOPES + ["x"]) + " in [1, 2]" + condition + " %}" + body()
                + rng.choice(["", "{% else %}" + body()]) + "{% endfor %}")
    if kind < 0.86:
        return "{% macro " + rng.choice("mn") + "(" + rng.choice(["", "text", "number='q'", "c=text"]) + ") %}" + body() + "{% endmacro %}"
    if kind < 0.92:
        return "{{ " + rng.choice("mn") + "(" + rng.choice(["", "1"]) + ") if " + rng.choice("mn") + " }}"
    if kind < 0.95:
        return "{% with " + name() + " = " + name() + " %}" + body() + "{% endwith %}"
    if kind < 0.98:
        return "{% set " + name() + " %}" + body() + "{% endset %}"
    return "{% filter upper %}" + body() + "{% endfilter %}"
