#!/usr/bin/env python3
"""Writes test vectors of chat templates: small templates, and the text that transformers renders.

    python3 scripts/chattemplates/vectors.py [PROGRAMS] > dataplane/prompt/chattemplate/testdata/vectors.json

The output is a list of [template, text], where text is null if Jinja raises. All templates are
rendered with the variables in VARS. The first part is written by hand and covers every construct;
the second applies every filter, test and operator to values of every type; the third is random
programs. Needs transformers and jinja2.
"""

import copy
import json
import random
import sys

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import expect  # noqa: E402

VARS = {
    "s": " Hello Wörld\n", "t": "a,b,,c", "e": "", "u": "日本語 🙂", "w": "the  quick\tbrown\n fox", "q": "it's \"x\"\\",
    "i": 7, "n": -3, "z": 0, "f": 2.5, "g": 1e16, "h": -0.00001, "big": 2**70, "yes": True, "no": False, "nil": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "mix": [1, "a", None, True, 2.5, [1], {"k": "v"}],
    "d": {"b": 1, "a": {"x": [1, 2]}, "items": "shadow", "é": "ü"}, "de": {},
    "rows": [{"n": "x", "v": 2, "on": True}, {"n": "Y", "v": 1}, {"n": "x", "v": 3, "on": False}],
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": " hi "}, {"role": "assistant", "content": "yo"},
                 {"role": "user", "content": [{"type": "text", "text": "p"}]}],
}

HAND = r"""
plain text
{{ s }}|{{ i }}|{{ f }}|{{ g }}|{{ h }}|{{ big }}|{{ yes }}|{{ no }}|{{ nil }}|{{ missing }}|{{ l }}|{{ d }}|{{ mix }}
{{ [s, q, u, e] }}{{ [f, g, h, 1.0, 100000.0, 1e15, 123456789012345680.0, 1e-4, 0.1] }}{{ (1,) }}{{ () }}{{ (1, 2) }}{{ {1: 2, 'a': none} }}
{{ ['\x00\x1f\x7f\x80\xa0\u200b\u2028\ue000', "a'b", 'a"b', 'a\'b"c', '\\', '\t\r\n'] }}
{{ 'a' 'b' }}{{ 'x\ny\t\\\'\"\x41\u00e9\101' }}{{ "\q" }}{{ 1_000 }}{{ 1.5e3 }}{{ 1e3 }}{{ 2.50 }}
{{ 1 + 2 * 3 - 4 / 2 }}|{{ 7 // 2 }}|{{ -7 // 2 }}|{{ 7 % -3 }}|{{ -7 % 3 }}|{{ 1 / 3 }}
{{ +i }}|{{ -f }}|{{ - n }}|{{ yes + yes }}|{{ 'ab' * 3 }}|{{ 3 * 'ab' }}|{{ 'ab' * -1 }}|{{ [1] * 2 }}|{{ [1] + [2] }}
{{ 1 ~ 'a' ~ none ~ 2.0 ~ [1] }}|{{ 'a' ~ missing ~ 'b' }}|{{ 1 + 2 ~ 3 + 4 }}
{{ 1 < 2 < 3 }}|{{ 1 < 3 < 2 }}|{{ 1 == 1.0 }}|{{ 1 == true }}|{{ 'a' == 'a' != 'b' }}|{{ 'a' < 'b' }}|{{ [1, 2] < [1, 3] }}|{{ [1] == [1.0] }}|{{ d == d }}
{{ 'a' in 'abc' }}|{{ 'z' not in 'abc' }}|{{ 1 in l }}|{{ 'b' in d }}|{{ 'b' in missing }}|{{ none in mix }}|{{ not 1 in l }}|{{ '' in 'a' }}
{{ 1 and 2 }}|{{ 0 and 2 }}|{{ 0 or 'x' }}|{{ not 0 }}|{{ not not l }}|{{ e or nil or le or de or 'last' }}|{{ (1 if no) }}|{{ 1 if yes else 2 }}|{{ 1 if no else 2 if no else 3 }}
{{ s[0] }}{{ s[1:4] }}|{{ u[1] }}|{{ u[-1] }}|{{ u[:2] }}|{{ u[::-1] }}|{{ l[-1] }}|{{ l[5] }}|{{ l[1:] }}|{{ l[::-1] }}|{{ l[:-1] }}|{{ l[10:] }}|{{ l[::2] }}|{{ l[-2:] }}|{{ t[5:1:-2] }}
{{ d.b }}|{{ d['b'] }}|{{ d.a.x[1] }}|{{ d.items is string }}|{{ d['items'] }}|{{ d.nope }}|{{ d['nope'] }}|{{ d.nope is defined }}|{{ mix[6].k }}|{{ rows.0.n }}|{{ d['é'] }}|{{ i.foo }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing + 1 }}
{{ missing() }}
{{ d.nope.deeper }}
{{ 'a' + 1 }}
{{ 1 < 'a' }}
{{ l < 1 }}
{{ 1 in 5 }}
{{ 5 in 'abc' }}
{{ 1 / 0 }}
{{ l.append(1) }}
{{ l.pop is defined }}{{ d.pop is defined }}{{ d.get is defined }}{{ s.upper is defined }}{{ s.append is defined }}
{{ raise_exception('boom') }}
{% if d.items() %}x{% endif %}{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for k in d.keys() %}{{ k }}{% endfor %}{{ d.values()|list }}{{ d.items() }}
{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip('\n') }}|{{ 'xxaxx'.strip('x') }}|{{ 'xyaxy'.lstrip('yx') }}|{{ s.upper() }}|{{ s.lower() }}|{{ 'hELLO wORLD'.title() }}|{{ 'hELLO'.capitalize() }}
{{ t.split(',') }}|{{ t.split(',', 1) }}|{{ t.rsplit(',', 1) }}|{{ w.split() }}|{{ w.split(none, 1) }}|{{ w.rsplit(none, 1) }}|{{ e.split() }}|{{ e.split(',') }}|{{ 'a</think>b</think>c'.split('</think>')[-1] }}|{{ t.split(sep=',', maxsplit=2) }}
{{ s.startswith(' H') }}|{{ s.endswith('\n') }}|{{ s.startswith(('x', ' ')) }}|{{ t.replace(',', ';') }}|{{ t.replace(',', ';', 1) }}|{{ ','.join(ls) }}
{{ 'abc'.removeprefix('a') }}|{{ 'abc'.removesuffix('c') }}
{{ d.get('b') }}|{{ d.get('zz') }}|{{ d.get('zz', 'dflt') }}
{{ l|tojson }}|{{ d|tojson }}|{{ mix|tojson }}|{{ [f, g, h, big]|tojson }}|{{ q|tojson }}|{{ u|tojson }}|{{ '\x00\x08\x0c\x1f\x7f</script>&'|tojson }}
{{ d|tojson(indent=2) }}|{{ le|tojson(indent=2) }}|{{ de|tojson(indent=4) }}|{{ mix|tojson(indent=1) }}|{{ d|tojson(ensure_ascii=true) }}|{{ u|tojson(ensure_ascii=true) }}|{{ d|tojson(separators=(',', ':')) }}|{{ d|tojson(indent='--', sort_keys=false) }}|{{ {1: 2, none: 3, true: 4, 2.5: 5}|tojson }}
{{ missing|tojson }}
{{ l|map('string')|tojson }}
{{ namespace(a=1)|tojson }}
{% set ns = namespace(a=1, b='x') %}{{ ns.a }}{% set ns.a = ns.a + 1 %}{{ ns.a }}{% for x in l %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}|{{ ns.nope }}|{{ ns['b'] }}|{{ ns.nope is defined }}|{{ ns }}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% for i in l %}{% if i == 1 %}{% set y = 'set' %}{% endif %}[{{ y }}]{% endfor %}{{ y }}
{% if yes %}{% set v1 = 1 %}{% else %}{% set v2 = 2 %}{% endif %}{{ v1 }}{{ v2 }}{% if no %}{% set i = 100 %}{% endif %}{{ i }}
{% if not nope is defined %}{% set nope = 'def' %}{% endif %}{{ nope }}{% if i is defined %}{% set i = i + 1 %}{% endif %}{{ i }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, dd) = l[:2] %}{{ c }}{{ dd }}{% set tup = 1, %}{{ tup }}
{% set a, b = l %}
{% set blk %}  text {{ i }}
{% endset %}[{{ blk }}]{% set blk2 | trim | upper %} filtered {% endset %}[{{ blk2 }}]
{% filter upper %}up {{ i }}{% endfilter %}{% filter trim|replace('a', 'b') %} banana {% endfilter %}
{% for x in l %}{{ loop.index }}/{{ loop.length }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.index0 }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.last }}{{ loop.length }}{% else %}none{% endfor %}{% for x in l if x > 5 %}x{% else %}none{% endfor %}{% for x in le %}x{% else %}empty{% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}{% for x in l %}{% continue %}{% else %}else after continue{% endfor %}{% for x in l %}{% break %}{% else %}else after break{% endfor %}
{% for x in l %}{% for y in ls %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% for a, b in [[1, 2], (3, 4)] %}{{ a }}{{ b }}{% endfor %}{% for (a, b), c in [[[1, 2], 3]] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for c in 'äb' %}[{{ c }}]{% endfor %}{% for x in missing %}x{% endfor %}{% for x in range(3) %}{{ x }}{% endfor %}{{ range(5) }}{{ range(1, 6, 2)|list }}{{ range(3, 0, -1)|list }}
{% for x in 5 %}{% endfor %}
{% for a, b in l %}{% endfor %}
{% macro m(a, b='dflt', c=a) %}<{{ a }}|{{ b }}|{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(c=3, a=1) }}{{ m() }}{{ m(1) is string }}{{ m('x')|upper }}
{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(3) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(zz=1) }}
{% macro m() %}{{ i }}{{ late }}{% set i = 'local' %}{{ i }}{% endmacro %}{% set late = 'late' %}{{ m() }}{{ i }}
{% macro c(x) %}[{{ caller(x) }}]{% endmacro %}{% call(y) c(5) %}body {{ y }} {{ i }}{% endcall %}{% macro c2() %}{{ caller() }}{{ caller is defined }}{% endmacro %}{% call c2() %}inner{% endcall %}
{% macro m() %}{% for x in l %}{{ x }}{% if x == 1 %}{% break %}{% endif %}{% endfor %}{% endmacro %}{{ m() ~ m() }}{% set got = m() %}[{{ got }}]
{% generation %}gen {{ i }}{% set inner = 1 %}{% endgeneration %}{{ inner }}
{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %}{% endfor %}
{# comment #}a{#- c -#} b {# c +#}
{% raw %}{{ not }} {% rendered %}{% endraw %}|{%- raw -%}  x  {%- endraw -%} |
a {{- i -}} b {%- if yes -%} c {%- endif -%} d
{% if yes %}
  indented
{% endif %}
tail
  {% if yes %}x{% endif %}
   {%+ if yes %}y{% endif %}
{% if yes +%}
z
{% endif %}
{{ i }}
{{ l|length }}|{{ u|length }}|{{ d|length }}|{{ missing|length }}|{{ l|first }}|{{ l|last }}|{{ le|first }}|{{ u|first }}|{{ u|last }}|{{ d|first }}|{{ l|join(', ') }}|{{ rows|join('-', attribute='n') }}|{{ u|join('.') }}|{{ l|count }}
{{ 5|length }}
{{ missing|default('dflt') }}|{{ e|default('dflt') }}|{{ e|default('dflt', true) }}|{{ nil|default('x') }}|{{ nil|d('x', boolean=true) }}|{{ missing|default }}|{{ d.zz|default({'a': 1})|tojson }}
{{ s|trim }}|{{ 'xxaxx'|trim('x') }}|{{ s|upper }}|{{ s|lower }}|{{ 'hello wORLD-foo (bar)'|title }}|{{ 'hELLO'|capitalize }}|{{ t|replace(',', '') }}|{{ 'aaa'|replace('a', 'b', 2) }}|{{ i|string + 'x' }}|{{ nil|trim }}|{{ 5|upper }}
{{ l|sort }}|{{ l|sort(reverse=true) }}|{{ ls|sort }}|{{ ls|sort(case_sensitive=true) }}|{{ rows|sort(attribute='v')|map(attribute='n')|list }}|{{ rows|sort(attribute='n,v')|map(attribute='v')|list }}|{{ d|dictsort }}|{{ {'b': 1, 'A': 2}|dictsort }}|{{ {'b': 1, 'A': 2}|dictsort(by='value', reverse=true) }}
{{ rows|selectattr('on')|list|length }}|{{ rows|selectattr('on', 'defined')|map(attribute='v')|list }}|{{ rows|rejectattr('n', 'equalto', 'x')|list }}|{{ rows|selectattr('v', '>', 1)|list|length }}|{{ l|reject('eq', 1)|list }}|{{ mix|select|list|length }}|{{ mix|select('string')|list }}|{{ mix|select('in', [1, 'a'])|list }}
{{ ls|map('upper')|list }}|{{ rows|map(attribute='on', default='?')|list }}|{{ l|map('string')|join('+') }}|{{ [' a ', 'b ']|map('trim')|list }}|{{ rows|map('length')|list }}
{% set g = l|map('string') %}{{ g|list }}{{ g|list }}|{% set g2 = l|select('gt', 1) %}{{ g2|first }}{{ g2|list }}|{{ le|select('gt', 1) is defined }}{% if le|select('gt', 1) %}truthy{% endif %}
{{ ls|unique|list }}|{{ [1, 1.0, true, '1']|unique|list }}|{{ l|reverse|list }}|{{ u|reverse }}|{{ d|items|list }}|{{ missing|items|list }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent('> ', blank=true) }}|{{ 'a\nb'|indent(width=3, first=true) }}|{{ ''|indent }}
{{ '42'|int }}|{{ ' -7 '|int }}|{{ '4.9'|int }}|{{ 'x'|int }}|{{ 'x'|int(-1) }}|{{ f|int }}|{{ nil|int }}|{{ yes|int }}|{{ '1e3'|int }}
{{ '<a & "b">'|e }}|{{ '<b>'|safe }}|{{ ('<b>'|safe) + '<c>' }}|{{ '<c>' + ('<b>'|safe) }}|{{ 'x<'|escape ~ '<' }}|{{ ('<b>'|safe)|tojson }}
{{ 1 is number }}{{ 1 is integer }}{{ 1.0 is float }}{{ true is boolean }}{{ true is integer }}{{ true is number }}{{ none is none }}{{ nil is not none }}{{ 'a' is string }}{{ l is sequence }}{{ l is iterable }}{{ d is mapping }}{{ u is sequence }}{{ missing is defined }}{{ missing is undefined }}{{ missing is none }}{{ missing is iterable }}{{ missing is sequence }}{{ missing is string }}{{ 1 is eq 1 }}{{ 1 is ne 2 }}{{ 1 is lt 2 }}{{ 2 is ge 2 }}{{ 1 is in l }}{{ yes is true }}{{ no is false }}{{ 1 is true }}{{ 'a' is equalto 'a' }}{{ raise_exception is defined }}
{{ 'x' is not string and 1 is number or no }}{{ not missing is defined }}{{ i is defined and i is not none }}{{ 'a' if l is not string else 'b' }}
{{ strftime_now('%d %b %Y') }}|{{ strftime_now("%Y-%m-%d %H:%M:%S %A %B %j %p %I %y %%") }}
{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% if message.content is string %}{{ message.content | trim }}{% else %}{% for part in message.content %}{{ part.text }}{% endfor %}{% endif %}{{ '<|im_end|>' ~ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
{% set ns = namespace(found=false, last=-1) %}{% for m in messages[::-1] %}{% if not ns.found and m.role == 'user' %}{% set ns.found = true %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{{ ns.found }}{{ ns.last }}{{ messages[0].role == 'system' and messages[1:]|length }}
{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set sys = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set sys = false %}{% endif %}{% for message in loop_messages %}{% if loop.index0 == 0 and sys is not false %}{{ sys + '\n' + message.content }}{% endif %}{{ loop.index0 % 2 }}{% endfor %}
{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2)|tojson }}{{ 1, 2 }}{{ [1, 2,] }}{{ {'a': 1,} }}{{ m|default(none) }}{{ d.items().foo }}{{ (d|items)|list|length }}{{ d|list }}
{{ u[0:1] ~ u[-1:] }}{{ w|replace('  ', ' ')|trim }}{{ 'a' < 'ä' }}{{ 'é' == 'é' }}{{ '🙂' > 'ￆ' }}
""".strip("\n").split("\n")

# Templates of several lines.
LONG = [
    "  {% if yes %}\n a\n  {%- endif %}\nb\n",
    "{% for x in l %}\n  - {{ x }}\n{% endfor %}\n\n",
    "x\r\ny\r{{ i }}\r\n",
    "{#\n multi\n#}\nx\n  {# c #}  \ny",
    "{% macro p(x) -%}\n  {%- if x is mapping -%}{ {%- for k, v in x|dictsort %}{{ k }}:{{ p(v) }}{{ ',' if not loop.last }}{% endfor %} }\n"
    "  {%- elif x is iterable and x is not string -%}[{% for v in x %}{{ p(v) }}{{ ',' if not loop.last }}{% endfor %}]\n"
    "  {%- else -%}{{ x }}{%- endif -%}\n{%- endmacro %}\n{{ p(d) }} {{ p(mix) }}",
    "{%- set x = 1 -%}\n  {%- raw %} {% x %} {% endraw %}\n  {{- x }}\n",
    "\n\n  {%- set a = 1 %}\n\n{{ a }}\n\n",
    "{% set long = 'a' %}\n{% for i in range(3) %}\n{% set long = long ~ i %}\n{{ long }}\n{% endfor %}\n{{ long }}",
    "{{ '{{' }}{{ '}}' }}{{ {'a': {'b': 1}}.a.b }}{{ {} }}{{ [{}] }}",
    "{% if no %}a{% elif nil %}b{% elif yes %}c{% set in_elif = 1 %}{% else %}d{% endif %}{{ in_elif }}",
    "{% for a in l %}{% for b in l if b != a %}{{ a }}{{ b }}{{ loop.last }} {% endfor %}{{ loop.index }}\n{% endfor %}",
    "{% set outer = [] %}{% for x in l %}{% set outer = outer + [x] %}{% endfor %}{{ outer }}",
    "{%- for k, v in d|items -%}\n{{ k }}={{ v }}\n{% endfor -%}\n",
    "{{ 1 if\n yes\n else 2 }}{{ [1,\n 2] }}",
]

VALUES = ["s", "t", "e", "u", "i", "n", "z", "f", "g", "h", "yes", "nil", "missing", "l", "ls", "le", "mix", "d", "de", "rows", "(1, 'a')", "range(3)",
          "d.items()", "l|map('string')", "'<x>'|safe", "namespace(a=1)", "big"]
FILTERS = ["capitalize", "count", "default('x')", "default('x', true)", "dictsort", "escape", "first", "indent", "int",
           "items|list", "join", "join('-')", "last", "length", "list", "lower", "map('string')|list", "reject|list", "replace('a', 'b')",
           "reverse|list", "safe", "select|list", "selectattr('v')|list", "sort", "string", "title", "tojson",
           "tojson(indent=2)", "trim", "unique|list", "upper", "map(attribute='v')|list", "select('defined')|list"]
TESTS = ["boolean", "defined", "eq(7)", "false", "float", "in('a')", "in([1, 7])", "integer", "iterable",
         "lt(3)", "mapping", "ne(1)", "none", "number", "sequence", "string", "true", "undefined"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
METHODS = ["strip()", "split()", "split(',')", "upper()", "get('b')", "items()", "keys()", "join(ls)", "startswith('a')", "replace('a', 'b')", "nope()",
           "x", "b", "0", "title()", "rstrip('\\n')", "endswith('c')"]


def generated():
    for v in VALUES:
        for f in FILTERS:
            yield "{{ (%s)|%s }}" % (v, f)
        for t in TESTS:
            yield "{{ (%s) is %s }}" % (v, t)
        for m in METHODS:
            yield "{{ (%s).%s }}" % (v, m)
        for k in ("0", "-1", "'b'", "'items'", "'upper'", "nil", "1:", "::-1", "f", "yes"):
            yield "{{ (%s)[%s] }}" % (v, k)
        yield "{%% for x in %s %%}[{{ x }}]{%% endfor %%}" % v
        yield "{%% for a, b in %s %%}[{{ a }},{{ b }}]{%% endfor %%}" % v
        yield "{{ %s }}|{{ [%s] }}" % (v, v)
        yield "{{ 'y' if %s else 'n' }}{{ not %s }}" % (v, v)
        for o in OPERATORS:
            for w in ("i", "f", "t", "l", "nil", "missing", "yes", "d"):
                yield "{{ (%s) %s %s }}" % (v, o, w)


class Program:
    """Writes random programs of scopes, loops, macros and whitespace control, with few names."""

    names = ["a", "b", "i", "s", "l"]
    space = ["", "", " ", "\n", "\n  ", "  \n", "\n\n", "x", "{# c #}", "{#- c -#}\n", "\t"]

    def __init__(self, r):
        self.r, self.macros = r, 0

    def tag(self, text):
        left, right = self.r.choice(["", "", "-", "+"]), self.r.choice(["", "", "-", "+"])
        return self.r.choice(self.space) + "{%" + left + " " + text + " " + right + "%}" + self.r.choice(self.space)

    def out(self, text):
        return self.r.choice(self.space) + "{{" + self.r.choice(["", "", "-"]) + " " + text + " " + self.r.choice(["", "", "-"]) + "}}"

    def expr(self):
        r, n = self.r, self.r.choice(self.names)
        return r.choice([n, "[1, 2]", "i", "7", "'t'", n + " ~ 'z'", n + " is defined", "(%s or 'o')" % n, "[%s]" % n, "nil", "l[1:]"])

    def body(self, depth, loop):
        return "".join(self.statement(depth, loop) for _ in range(self.r.randint(1, 3)))

    def statement(self, depth, loop):
        r, n = self.r, self.r.choice(self.names)
        kind = r.choice(["out", "out", "set", "set", "if", "for", "macro", "block", "filter", "flow"] if depth < 3 else ["out", "set"])
        if kind == "set":
            return self.tag("set %s = %s" % (n, self.expr()))
        if kind == "if":
            text = self.tag("if " + self.expr()) + self.body(depth + 1, loop)
            if r.random() < 0.3:
                text += self.tag("elif " + self.expr()) + self.body(depth + 1, loop)
            if r.random() < 0.4:
                text += self.tag("else") + self.body(depth + 1, loop)
            return text + self.tag("endif")
        if kind == "for":
            test = r.choice(["", "", " if %s != 1" % n, " if " + self.expr()])
            text = self.tag("for %s in %s%s" % (n, r.choice(["l", "[1, 2, 3]", "range(2)", "le", "'äb'"]), test))
            text += r.choice(["", self.out("loop.index ~ loop.last"), self.out("loop.length")]) + self.body(depth + 1, True)
            if r.random() < 0.2:
                text += self.tag("else") + self.body(depth + 1, loop)
            return text + self.tag("endfor")
        if kind == "macro":
            self.macros += 1
            name = "m%d" % self.macros
            text = self.tag("macro %s(%s)" % (name, r.choice(["", "a", "a, b=2", "b=i"]))) + self.body(depth + 1, False) + self.tag("endmacro")
            if r.random() < 0.3:
                return text + self.tag("call %s()" % name) + self.body(depth + 1, False) + self.tag("endcall")
            return text + self.out("%s(%s)" % (name, r.choice(["", "1", "b=5", n])))
        if kind == "block":
            return self.tag("set %s%s" % (n, r.choice(["", " | upper"]))) + self.body(depth + 1, False) + self.tag("endset")
        if kind == "filter":
            return self.tag("filter trim") + self.body(depth + 1, False) + self.tag("endfilter")
        if kind == "flow" and loop:
            return self.tag("if " + self.expr()) + self.tag(r.choice(["break", "continue"])) + self.tag("endif")
        return self.out(self.expr())


def programs(count):
    for seed in range(count):
        r = random.Random(seed)
        yield Program(r).body(0, False) + "|{{ a }}{{ b }}{{ i }}{{ s }}{{ l }}"


def render(template):
    # Copies, because the filter indent applies += to its argument and so changes a list.
    try:
        text = expect.hf._compile_jinja_template(template).render(add_generation_prompt=True, **copy.deepcopy(VARS))
        text.encode()
    except Exception:  # noqa: BLE001
        return None
    return None if " at 0x" in text else text


def main():
    out = {"vars": VARS, "hand": [], "generated": [], "programs": []}
    for template in HAND + LONG:
        out["hand"].append([template, render(template)])
    for template in generated():
        text = render(template)
        if text is None or len(text) < 400:
            out["generated"].append([template, text])
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    for template in programs(count):
        text = render(template)
        if text is None or len(text) < 1000:
            out["programs"].append([template, text])
    lists = [",\n".join(json.dumps(x) for x in out[name]) for name in ("hand", "generated", "programs")]
    sys.stdout.write('{"vars": %s,\n"hand": [\n%s\n],\n"generated": [\n%s\n],\n"programs": [\n%s\n]}\n' % (json.dumps(VARS), *lists))


if __name__ == "__main__":
    main()
