package chattemplate_test

import (
	"fmt"
	"strings"
)

// large makes a, a string of 4 MiB, and items, a list of 50,000 numbers.
const large = "{% set a = 'ab' * 2000000 %}{% set items = range(50000) | list %}"

// again runs statements a hundred thousand times, unless a limit comes before.
func again(body string) string {
	return large + "{% for i in range(1000) %}{% for j in range(100) %}" + body + "{% endfor %}{% endfor %}"
}

// names is 1,000 assignments, or the like.
func names(format string) string {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// bombs are templates that take hours or terabytes where nothing is counted.
var bombs = map[string]string{
	"loops in loops":             "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}",
	"a long string":              "{{ 'x' * 10000000000 }}",
	"products of strings":        "{% set a = 'x' * 10000 %}{% set a = a * 10000 %}{% set a = a * 10000 %}{{ a }}",
	"doubling":                   "{% set ns = namespace(a='x') %}{% for i in range(64) %}{% set ns.a = ns.a + ns.a %}{% endfor %}{{ ns.a }}",
	"doubling by ~":              "{% set ns = namespace(a='x') %}{% for i in range(64) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}{{ ns.a }}",
	"doubling by a list":         "{% set ns = namespace(a=[1]) %}{% for i in range(64) %}{% set ns.a = ns.a + ns.a %}{% endfor %}",
	"doubling by replace":        "{% set ns = namespace(a='x') %}{% for i in range(64) %}{% set ns.a = ns.a.replace('x', 'xx') %}{% endfor %}",
	"doubling by a block":        "{% set ns = namespace(a='x') %}{% for i in range(64) %}{% set b %}{{ ns.a }}{{ ns.a }}{% endset %}{% set ns.a = b %}{% endfor %}",
	"doubling by macros":         "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% else %}x{% endif %}{% endmacro %}{{ m(100) }}",
	"output without loops":       large + strings.Repeat("{{ a }}", 10_000),
	"a sum that is output":       large + "{{ a" + strings.Repeat(" + a", 10_000) + " }}",
	"a list of lists":            large + "{% set b = [a] * 100 %}{% set b = [b] * 100 %}{% set b = [b] * 100 %}{{ b }}",
	"JSON of lists of lists":     large + "{% set b = [a] * 100 %}{% set b = [b] * 100 %}{% set b = [b] * 100 %}{{ b | tojson }}",
	"JSON with long separators":  large + "{{ items | tojson(separators=[a, a]) }}",
	"JSON with a wide indent":    "{{ [[[[1]]]] | tojson(indent=1000000000) }}",
	"indent":                     "{{ ('x\n' * 10000) | indent(100000) }}",
	"join":                       large + "{{ items | join(a) }}",
	"join of long strings":       large + "{{ ([a] * 10000) | join }}",
	"escape":                     again("{% set x = a | e %}"),
	"call blocks":                again("{% macro m() %}{{ caller() }}{% endmacro %}{% set x %}{% call m() %}{{ a }}{% endcall %}{% endset %}"),
	"in a string":                again("{% set x = 'c' in a %}"),
	"in a list":                  again("{% set x = -1 in items %}"),
	"in a list of long strings":  again("{% set x = (a + 'x') in [a + 'y', a + 'y'] %}"),
	"equality":                   large + "{% set b = a + 'x' %}{% set c = a + 'y' %}{% for i in range(100000) %}{% set x = b == c %}{% endfor %}",
	"order":                      large + "{% set b = a + 'x' %}{% set c = a + 'y' %}{% for i in range(100000) %}{% set x = b < c %}{% endfor %}",
	"length":                     again("{% set x = a | length %}"),
	"first character":            again("{% set x = a[0] %}"),
	"last character":             again("{% set x = a[-1:] %}"),
	"iteration":                  again("{% for c in a %}{% break %}{% endfor %}"),
	"strip":                      again("{% set x = (a).strip('ab') %}"),
	"startswith":                 again("{% set x = a.startswith(a) %}"),
	"startswith of many":         large + "{% set x = a.startswith(('',) * 0 + (a[1:],) * 50000) %}{% for i in range(100000) %}{% set x = a.startswith((a[:-1] + 'x',) * 5) %}{% endfor %}",
	"upper":                      again("{% set x = a | upper %}"),
	"lower":                      again("{% set x = a | lower %}"),
	"title":                      again("{% set x = a | title %}"),
	"split":                      again("{% set x = a.split('c') %}"),
	"sort of long strings":       large + "{% set b = [a + 'x', a + 'y'] * 10000 %}{% set x = b | sort(case_sensitive=true) %}",
	"map of a filter":            again("{% set x = [a] | map('title') | list %}"),
	"select by a test":           large + "{% set b = [a + 'x'] %}{% set c = a + 'y' %}{% for i in range(100000) %}{% set x = b | select('eq', c) | list %}{% endfor %}",
	"unique":                     large + "{% set x = items | unique | list %}",
	"a long path of attributes":  large + "{% set p = '0.' * 100000 %}{% for i in range(100000) %}{% set x = [{}] | map(attribute=p) | list %}{% endfor %}",
	"a dict of many keys":        "{% set d = {" + strings.TrimSuffix(names("'k%d': 1,"), ",") + "} %}{% for i in range(100000) %}{% for j in range(10) %}{% set x = d.nothing %}{% endfor %}{% endfor %}",
	"a namespace of many names":  "{% set ns = namespace() %}" + strings.Repeat(names("{%% set ns.a%d = 1 %%}"), 10) + "{% for i in range(99999) %}{% for j in range(99999) %}{% set ns.a999 = 1 %}{% endfor %}{% endfor %}",
	"a scope of many variables":  "{% for i in range(99999) %}" + names("{%% set a%d = 1 %%}") + "{% endfor %}",
	"time":                       large + "{% for i in range(100000) %}{% set x = strftime_now('%Y' * 1000000) %}{% endfor %}",
	"a filter on the whole text": "{% filter upper %}{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}{% endfilter %}",
}
