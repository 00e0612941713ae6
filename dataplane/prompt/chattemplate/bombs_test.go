//go:build !race || soak

package chattemplate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

// TestBombs: each ends at a limit, in the time that its steps take.
func TestBombs(t *testing.T) {
	if tmpl, err := chattemplate.Compile(large); err != nil {
		t.Fatal(err)
	} else if _, err := tmpl.Render(nil, chattemplate.Input{Messages: []byte(`[]`)}); err != nil {
		t.Fatalf("what the bombs begin with is one: %v", err)
	}
	for name, source := range bombs {
		t.Run(name, func(t *testing.T) {
			tmpl, err := chattemplate.Compile(source)
			if err != nil {
				t.Fatal(err)
			}
			out, err := tmpl.Render([]byte("before"), chattemplate.Input{Messages: []byte(`[]`), Limits: chattemplate.Limits{Steps: 300_000}})
			if !errors.Is(err, chattemplate.ErrLimit) || string(out) != "before" {
				t.Errorf("%d bytes and %v, want ErrLimit", len(out), err)
			}
		})
	}
}

// TestTemplatesThatAreTooLarge: and those just below compile, however they nest.
func TestTemplatesThatAreTooLarge(t *testing.T) {
	const most = 256 << 10
	for _, piece := range []string{"x", "{{ a }}", "{% if a %}", "{{ a|e ", "((", "a+", "a.b", "[", "{% set a = 1 %}", "{% for a in b %}", "{#", "not ", "{{ a ~ "} {
		source := "{{ " + strings.Repeat(piece, most/len(piece)-10)
		if _, err := chattemplate.Compile(source); errors.Is(err, chattemplate.ErrLimit) {
			t.Errorf("%q: %v", piece, err)
		}
		if _, err := chattemplate.Compile(source + strings.Repeat(piece, 20)); !errors.Is(err, chattemplate.ErrLimit) {
			t.Errorf("%q: the error is %.100v, want ErrLimit", piece, err)
		}
	}
	for _, source := range []string{
		"{{ a" + strings.Repeat("+a", most/2-10) + " }}", "{{ a" + strings.Repeat("|e", most/2-10) + " }}", "{{ a" + strings.Repeat(".a", most/2-10) + " }}",
		"{% if a %}" + strings.Repeat("{% elif a %}", most/12-10) + "{% endif %}", "{{ a" + strings.Repeat(" if a", most/5-10) + " }}",
	} {
		tmpl, err := chattemplate.Compile(source)
		if err != nil {
			continue // nested too deep for the parser
		}
		_, _ = tmpl.Render(nil, chattemplate.Input{Messages: []byte(`[]`), Kwargs: []byte(`{"a":"1"}`)})
	}
}
