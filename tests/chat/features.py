"""Small templates, each for something that templates rely on, with the variables that they are rendered with."""
M = {"m": {"role": "user", "content": " Hi ", "items": "shadow", "n": None, "f": 1.0, "list": [1, "a", None, True, 2.5], "deep": {"x": {"y": "z"}}}}
CASES = r"""
{{ m.role }}{{ m['role'] }}{{ m.get('role') }}{{ m.get('x', 'no') }}{{ m.x is defined }}{{ m.n is none }}
{{ m }}
{{ m.items is callable }}{{ m['items'] }}{{ m.items() | list | length }}
{{ m.list }}{{ m.list | tojson }}{{ (1,) }}{{ () }}{{ {} }}{{ [none, true, 1.0, 1e20, -0.0] }}
{{ 'it\'s' ~ "\"q\"" }}{{ ["it's", 'say "x"', 'both \' "'] }}{{ ['\n\t\\', 'é\x07​'] }}
{{ 0.1 + 0.2 }} {{ 1e22 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 1.5e-5 }} {{ 0.0001 }} {{ 100 / 3 }} {{ 2 ** 0.5 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 1 - 2 - 3 }} {{ 2 * 3 + 4 * 5 }}
{{ 1 + 2 ~ 3 + 4 }} {{ 'a' ~ 1 + 2 }} {{ 3 * 'ab' }} {{ [0] * 2 + [1] }}
{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 1 == 1.0 == true }}{{ not 1 == 2 }}{{ not true and false }}{{ 1 or 2 and 0 }}{{ none or 'x' }}{{ '' and 'x' }}
{{ 'a' in 'abc' }}{{ 'a' not in ['b'] }}{{ 'role' in m }}{{ 1 in (1, 2) }}{{ not 'a' in 'b' }}
{{ 'abc'[1] }}{{ 'abc'[-1] }}{{ 'abcdef'[1:4] }}{{ 'abcdef'[::-2] }}{{ [1,2,3][:-1] }}{{ 'äöü世界'[1:4] }}{{ 'äöü'[5] is defined }}
{{ m.list[0] }}{{ m.list.0 }}{{ m.deep.x.y }}{{ m.deep['x']['y'] }}{{ m.deep.q.y is defined if false else 'lazy' }}
{{ 'x' if m.q }}|{{ 'x' if m.role else 'y' }}|{{ 'a' if false else 'b' if true else 'c' }}
{{ '%s is %d years, %.2f%% %5s|%-5s|%05d' % ('Al', 3, 99.5, 'x', 'y', 42) }}{{ '%(a)s' % {'a': 1} }}{{ '{} {1} {x!r}'.format(1, 2, x='q') if false else '{0}{1}{x!r}'.format(1, 2, x='q') }}
{% if m.role == 'user' %}u{% elif true %}e{% else %}o{% endif %}{% if not m.x %}n{% endif %}
{% for x in [1,2,3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for k, v in {'a': 1, 'b': [2, 3]}.items() %}{{ k }}{{ v }}{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for x in [] %}a{% else %}empty{% endfor %}{% for x in m.x %}a{% else %}undefined{% endfor %}{% for c in 'äb' %}<{{ c }}>{% endfor %}
{% for x in range(10) if x % 2 %}{% if x > 6 %}{% break %}{% endif %}{% if x == 3 %}{% continue %}{% endif %}{{ loop.index }}:{{ x }} {% endfor %}
{% for x in range(3) %}{% for y in range(2) %}{{ loop.depth if loop.depth is defined }}{{ x }}{{ y }}{{ loop.last }} {% endfor %}{{ loop.last }}{% endfor %}
{% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}, {'v': 3}]}] recursive %}{{ loop.depth0 }}{{ n.v }}({{ loop(n.c or []) }}){% endfor %}
{% set x = 1 %}{% for i in [1,2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(n=0, l=[]) %}{% for i in [1,2] %}{% set ns.n = ns.n + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.n }}{{ ns.l }}{{ ns.q is defined }}
{% set a, b = 1, 'x' %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set body %}<{{ a }}>{% set b = 2 %}{% endset %}{{ body }}{{ b }}{% set up | upper | trim %} q {% endset %}{{ up }}
{% macro f(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }}{{ f(1, c=3) }}{{ f(1, 2, 3, 4, d=5) }}{{ f() }}
{% macro rec(n) %}{{ n }}{% if n > 0 %}{{ rec(n - 1) }}{% endif %}{% endmacro %}{{ rec(5) }}{{ rec }}{{ rec.name }}
{% macro wrap(tag) %}<{{ tag }}>{{ caller('in') }}</{{ tag }}>{% endmacro %}{% call(x) wrap('b') %}{{ x }}-{{ m.role }}{% endcall %}
{% macro late() %}{{ v }}{% endmacro %}{% set v = 'set later' %}{{ late() }}
{% filter upper | replace('A', 'x') %}banana{% endfilter %}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}
{% raw %}{{ not }} {% this %}{% endraw %}{# comment {{ x }} #}|{{ '{{' }}{{ '%}' }}
{{ [3,1,2]|sort }}{{ ['b','A','c']|sort }}{{ ['b','A']|sort(case_sensitive=true) }}{{ [1,2,3]|sort(reverse=true) }}{{ [{'a':2},{'a':1}]|sort(attribute='a') }}
{{ ['a','A','b']|unique|list }}{{ [3,1]|min }}{{ [3,1]|max }}{{ [1,2]|sum }}{{ [{'v':1},{'v':2}]|sum(attribute='v') }}{{ {'b':1,'a':2}|dictsort }}{{ {'a':1}|items|list }}
{{ ['x','y']|join(', ') }}{{ [1,[2]]|join }}{{ 'abc'|first }}{{ [1,2]|last }}{{ [1,2]|length }}{{ {'a':1}|length }}{{ 'äö'|length }}{{ m.x|length }}
{{ [1,2,3,4]|select('even')|list }}{{ [0,1,'']|select|list }}{{ [1,2]|reject('odd')|list }}{{ ['a','b']|map('upper')|join }}{{ [{'a':1},{}]|map(attribute='a', default=0)|list }}
{{ [{'r':'a','n':1},{'r':'b'}]|selectattr('n','defined')|map(attribute='r')|list }}{{ [{'r':'a'}]|rejectattr('r','equalto','a')|list }}{{ [{'r':'a'}]|selectattr('r','in',['a'])|list|length }}
{{ '  x '|trim }}|{{ 'xxaxx'|trim('x') }}{{ 'a b'|title }}{{ 'hELLO w'|capitalize }}{{ 'a-b (c'|title }}{{ "it's"|title }}{{ "it's".title() }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, first=true) }}|{{ 'a\n\nb'|indent('> ', blank=true) }}
{{ m.x|default('d') }}{{ ''|default('d') }}{{ ''|default('d', true) }}{{ none|default('d') }}{{ none|d('d', boolean=true) }}
{{ '12'|int }}{{ 'x'|int }}{{ 'x'|int(-1) }}{{ '3.9'|int }}{{ 2.9|int }}{{ '1.5'|float }}{{ 3|float }}{{ 2.567|round(2) }}{{ 2.5|round }}{{ 3.5|round }}{{ 2.1|round(0, 'ceil') }}{{ 5|round }}{{ -3|abs }}
{{ {'b': 1, 'a': [1, {}], 'ü': '☃<>&\'"'}|tojson }}{{ {'b': [], 'a': {'c': 1}}|tojson(indent=2) }}{{ 'ü🙂'|tojson(ensure_ascii=true) }}{{ [1,2]|tojson(separators=(',',':')) }}{{ {'b':1,'a':2}|tojson(sort_keys=true) }}
{{ "\u0000\u001f\u007f\u2028\n\t"|tojson }}{{ [1.0, 1e100, none, true]|tojson }}{{ {1: 2, none: 3, true: 4}|tojson }}
{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'a\nb\r\nc\n'.splitlines() }}{{ 'a.b'.partition('.') }}
{{ 'abc'.startswith('a') }}{{ 'abc'.startswith(('x','a')) }}{{ 'abc'.endswith('bc') }}{{ 'abcabc'.find('c') }}{{ 'abc'.find('x') }}{{ 'äbä'.rfind('ä') }}{{ 'aaa'.count('a') }}{{ 'abc'.index('b') }}
{{ ' xx '.strip() }}|{{ 'xxaxx'.lstrip('x') }}|{{ 'xxaxx'.rstrip('x') }}|{{ 'a'.upper() }}{{ 'A'.lower() }}{{ 'a b'.title() }}{{ 'aB'.swapcase() }}{{ '7'.zfill(3) }}{{ '-'.join(['a','b']) }}{{ 'aXb'.replace('X', '') }}
{{ 'ß'.upper() }}{{ 'ÄÖ'.lower() }}{{ 'ΑΣ'.lower() }}{{ '12'.isdigit() }}{{ 'ab'.isalpha() }}{{ ''.isdigit() }}{{ 'Ab'.isupper() }}
{{ 1 is number }}{{ true is number }}{{ 1 is integer }}{{ true is integer }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is sequence }}{{ 'a' is sequence }}{{ {} is sequence }}{{ m.x is sequence }}{{ m.x is iterable }}{{ 1 is iterable }}
{{ 2 is even }}{{ 3 is odd }}{{ 4 is divisibleby 2 }}{{ 1 is equalto 1 }}{{ 1 is eq 1 }}{{ 1 is in [1] }}{{ 1 is not in [1] }}{{ none is none }}{{ true is true }}{{ 1 is true }}{{ true is boolean }}{{ m.x is undefined }}{{ m.role is not undefined and m.role is string }}
{{ namespace(a=1) }}{{ dict(a=1, b=2) }}{{ dict([('x', 1)]) }}{{ range(3) }}{{ range(1, 10, 3) | list }}{{ range(5, 0, -2) | list }}
{{ (m.content | trim).split('H') | last ~ '!' }}{{ (1, 2)[0] }}{{ {'a': {'b': 1}}['a']['b'] }}{{ [[1, 2], [3]][1][0] }}{{ -m.f }}{{ +3 }}
{{ '<b>' | safe + '<i>' }}{{ 'a' + ('<' | safe) }}{{ '<' | e }}{{ ('<' | safe) ~ '<' }}{{ ('a<' | safe).upper() + '>' }}
{{ m.list | tojson | safe }}{{ '<' | tojson }}{{ 'x' | string | safe | length }}
{{ m.x }}{{ m.x.y }}
{{ m.content.x.y }}
{{ 1 + 'a' }}
{{ undefined_function() }}
{{ m.x() }}
{{ raise_exception('a reason: ' ~ m.role) }}
{{ [1, 2] | first(1) }}
{{ m.list.append(1) }}
{{ m.update({'a': 1}) }}
{{ 'a' < 1 }}
{{ none | length }}
{{ m.x | tojson }}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{{ range(1000000) }}
{{ 1 / 0 }}{{ 1 // 0 }}
{% set m.q = 1 %}
{{ m.list | join(1, 2, 3) }}
{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}
{{ 5 | items | list }}
{{ 'abc'.index('z') }}
{{ ''.join([1]) }}
{{ namespace(_x=1) }}
""".strip("\n").split("\n")
WHITE_SPACE = [
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if true -%}\n  b\n  {%- endif -%}\nc\n\n", "  {{ 1 }}  \n  {{- 2 -}}  \n 3 \n", "{% if true %}\n\n x{% endif %}\n\n",
    "a {% set x = 1 %} b\n{% set y = 2 %}   \nc", "  {%+ if true %}x{% endif +%}\ny", "{# c #}\nx\n  {# d #}\n  y {#- e -#} z", "{% raw %}\n  {{ x }}\n{% endraw %}\nq\n",
    "\t {% for i in [1, 2] %}\n\t- {{ i }}\n\t {% endfor %}\nend", "x{%- raw -%}  {{ y }}  {%- endraw -%}  z", "\r\na\r\n{% if true %}\r\nb\r{% endif %}\r\n", "{{- '  ' -}}\n\n\n",
    "a\n{%- for i in [1,2] %}\n{{ i }}\n{%- endfor %}\n", "{% if true -%} x {%+ endif %}\n y", "\u00a0{%- if true %}\u2003{% endif %}", "{{ 1 }}\n", "{{ 1 }}\n\n", "", "\n", "{", "{ {", "}} %} #}",
]
GENERATION = [
    "a{% generation %}b{% endgeneration %}c{% generation %}ü{{ m.role }}{% endgeneration %}世{% generation %}{% endgeneration %}",
    "{% for i in [1, 2] %}{{ i }}:{%- generation -%}  <{{ i }}>{% set x = i %}  {%- endgeneration -%}{{ x }};{% endfor %}",
    "{% if true %}\n  {% generation %}\n  text\n  {% endgeneration %}\n{% endif %}",
]
FEATURES = [(template, M) for template in CASES + WHITE_SPACE + GENERATION]
