package chattemplate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

func TestCompileNamesWhatItDoesNotRender(t *testing.T) {
	source := "{{ x|urlize }}\n{% include 'other' %}\n{{ lipsum() }}\n{% if x is weird %}{% endif %}{{ x.encode() }}\n" +
		"{% for a in b recursive %}{% endfor %}\n{{ rows|map('pprint')|list }}\n{{ 99999999999999999999 }}{% block c %}{% endblock %}"
	_, err := chattemplate.Compile(source)
	var gaps *chattemplate.UnsupportedError
	if !errors.As(err, &gaps) || !errors.Is(err, chattemplate.ErrUnsupported) {
		t.Fatalf("Compile = %v, want an UnsupportedError", err)
	}
	var got []string
	for _, g := range gaps.Gaps {
		got = append(got, fmt.Sprintf("%d %s", g.Line, g.What))
	}
	want := []string{
		"1 filter urlize", "2 tag include", "3 function lipsum", "4 test weird", "4 method encode", "5 recursive loop",
		"6 filter pprint", "7 integer 99999999999999999999", "7 tag block",
	}
	if !slices.Equal(got, want) {
		t.Errorf("gaps\n got %q\nwant %q", got, want)
	}
	if !strings.Contains(err.Error(), "filter urlize (line 1)") {
		t.Errorf("the error %q does not name the filter and its line", err)
	}
}

func TestCompileRefusesWhatIsNotJinja(t *testing.T) {
	tests := []struct {
		source string
		line   int
	}{
		{"a\n{% if x %}", 2},
		{"{{ x", 1},
		{"\n\n{% nope %}", 3},
		{"{{ 1 + }}", 1},
		{"{% for x %}{% endfor %}", 1},
		{"{% set 1 = 2 %}", 1},
		{"{{ f(a=1, 2) }}", 1},
		{"{{ 'open }}", 1},
		{"{# open", 1},
		{"{% raw %}", 1},
		{"{{ (1 }}", 1},
		{"{{ x is defined is none }}", 1},
		{"{% macro m(a=1, b) %}{% endmacro %}", 1},
		{"{{ 'a' ! }}", 1},
		{strings.Repeat("{% if x %}", 1000), 1},
		{"{{ " + strings.Repeat("(", 1000) + " }}", 1},
	}
	for _, test := range tests {
		_, err := chattemplate.Compile(test.source)
		var syntax *chattemplate.SyntaxError
		if !errors.As(err, &syntax) || !errors.Is(err, chattemplate.ErrSyntax) {
			t.Errorf("Compile(%.40q) = %v, want a SyntaxError", test.source, err)
		} else if syntax.Line != test.line {
			t.Errorf("Compile(%.40q): line %d, want %d", test.source, syntax.Line, test.line)
		}
	}
}

func TestTemplateErrorsSayWhatPythonWouldRaise(t *testing.T) {
	tests := map[string]string{
		"\n{{ raise_exception('no ' ~ 'way') }}": "line 2: no way",
		"{{ a.b.c }}":                            "undefined has no attribute c",
		"{{ [] + 1 }}":                           "unsupported operand types for +: list and int",
	}
	for source, want := range tests {
		got, err := render(strings.ReplaceAll(source, "a.b.c", "{}.b.c"), []byte(`{}`))
		if !errors.Is(err, chattemplate.ErrTemplate) || !strings.Contains(err.Error(), want) || got != "" {
			t.Errorf("%q renders %q, %v; want an error with %q", source, got, err, want)
		}
	}
}

func TestLimitsHold(t *testing.T) {
	many := `{"xs": [` + strings.TrimSuffix(strings.Repeat("1,", 2000), ",") + `], "text": "` + strings.Repeat("x", 4000) + `"}`
	limits := chattemplate.Limits{Output: 1 << 16, Memory: 1 << 20, Steps: 100_000}
	tests := map[string]string{
		"output": "{% for x in xs %}{{ text }}{% endfor %}",
		"steps":  "{% for x in xs %}{% for y in xs %}{% endfor %}{% endfor %}",
		"memory": "{% set ns = namespace(t='') %}{% for x in xs %}{% set ns.t = ns.t ~ text %}{% endfor %}",
		"lists":  "{% set ns = namespace(t=[1]) %}{% for x in xs %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
		"repeat": "{{ (text * 1000000)|length }}",
		"indent": "{{ xs|tojson(indent=100000)|length }}",
		"range":  "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
		"pairs":  "{% for x in xs %}{% set y = xs|sort|list %}{% endfor %}",
	}
	for name, source := range tests {
		tmpl, err := chattemplate.Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		dst := []byte("kept")
		out, err := tmpl.Render(dst, chattemplate.Input{Messages: []byte(`[]`), Kwargs: []byte(many), Limits: limits})
		if !errors.Is(err, chattemplate.ErrLimit) || string(out) != "kept" {
			t.Errorf("%s: Render = %.20q, %v; want ErrLimit and the destination as it was", name, out, err)
		}
	}
}

func TestRecursionIsBounded(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	tests := map[string]string{
		"macro":  "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}",
		"nested": "{% set ns = namespace(v=[]) %}{% for i in range(3000) %}{% set ns.v = [ns.v] %}{% endfor %}{{ ns.v }}",
		"json":   "{% set ns = namespace(v=[]) %}{% for i in range(3000) %}{% set ns.v = [ns.v] %}{% endfor %}{{ ns.v|tojson }}",
		"equal": "{% set ns = namespace(v=[], w=[]) %}{% for i in range(3000) %}{% set ns.v = [ns.v] %}{% set ns.w = [ns.w] %}{% endfor %}" +
			"{{ ns.v == ns.w }}{{ ns.v < ns.w }}",
	}
	for name, source := range tests {
		if _, err := render(source, []byte(`{}`)); !errors.Is(err, chattemplate.ErrUnsupported) {
			t.Errorf("%s: error %v, want ErrUnsupported", name, err)
		}
	}
	if _, err := render("{{ x }}", []byte(`{"x": `+deep+`}`)); !errors.Is(err, chattemplate.ErrUnsupported) {
		t.Errorf("deep JSON: error %v, want ErrUnsupported", err)
	}
}
