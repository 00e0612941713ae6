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
	source := "{{ x|urlize }}\n{% include 'other' %}\n{{ lipsum() }}\n{{ x is weird }}{{ x.encode() }}\n" +
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

// TestUnknownNamesInBranches: Jinja looks filters and tests in a branch up when it runs, so that a template with one is refused only then.
func TestUnknownNamesInBranches(t *testing.T) {
	for source, want := range map[string]string{
		"{% if x is string %}{{ x|from_json }}{% else %}{{ x }}{% endif %}":                         "1",
		"{% if x %}a{% elif x|from_json %}b{% else %}{{ x is weird }}{% endif %}":                   "a",
		"{{ x|from_json if x is string else x }}":                                                   "1",
		"{{ x if x else (x|from_json)['a'] }}":                                                      "1",
		"{% if not x %}{% for y in x|map('from_json') %}{% endfor %}{% endif %}b":                   "b",
		"{% if not x %}{{ x|select('weird')|list }}{% endif %}b":                                    "b",
		"{% macro m(y) %}{% if y is string %}{{ y|from_json }}{% endif %}c{% endmacro %}{{ m(x) }}": "c",
	} {
		if got, err := render(source, []byte(`{"x": 1}`)); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", source, got, err, want)
		}
	}
	for _, source := range []string{
		"{% if x %}{{ x|from_json }}{% endif %}", "{% if x is weird %}{% endif %}", "{{ x|from_json if x else x }}", "{{ 1 if x is weird else 2 }}",
		"{% if x %}{{ [x]|map('from_json')|list }}{% endif %}", "{% if x %}{{ [x]|select('weird')|list }}{% endif %}",
		"{% if x %}{% filter from_json %}1{% endfilter %}{% endif %}", "{{ x|from_json }}{% if x %}{% endif %}", "{% if x %}{% set y | from_json %}1{% endset %}{{ y }}{% endif %}",
	} {
		if got, err := render(source, []byte(`{"x": 1}`)); !errors.Is(err, chattemplate.ErrUnsupported) {
			t.Errorf("%s: %q, %v, want ErrUnsupported", source, got, err)
		}
	}
}

// TestDelete: json.dumps escapes U+007F where it escapes what is beyond ASCII.
func TestDelete(t *testing.T) {
	got, err := render(`{{ x|tojson(ensure_ascii=true) }}{{ x|tojson }}`, []byte(`{"x": "~\u007f\u0080"}`))
	if want := `"~\u007f\u0080"` + "\"~\x7f\u0080\""; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
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
