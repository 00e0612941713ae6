package lint

import (
	"fmt"
	"io"
	"strings"
)

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d prompts, %.0f tokens; %d of a template that several have\n", r.Prompts, r.Tokens, r.Grouped)
	fmt.Fprintf(&b, "tokens before the first one that changes: %s; with stable parts first: %s\n", Percent(r.Now), Percent(r.Then))
	if len(r.Finding) == 0 {
		b.WriteString("no changing part stands before stable ones that are worth moving\n")
	}
	for i := range r.Finding {
		f := &r.Finding[i]
		fmt.Fprintf(&b, "\n%d. %d prompts of %.0f tokens", i+1, f.Prompts, f.Tokens)
		if f.Model != "" {
			fmt.Fprintf(&b, " for %s", f.Model)
		}
		fmt.Fprintf(&b, ": %s -> %s\n", Percent(f.Now), Percent(f.Then))
		fmt.Fprintf(&b, "   first change: %s, offset %d, after %.0f tokens (%s)\n", f.Part, f.Offset, f.Before, f.Kind)
		fmt.Fprintf(&b, "   stable behind it: %.0f tokens; share of the cache lost: %s\n", f.StableAfter, Percent(f.Lost))
		if len(f.Values) > 0 {
			fmt.Fprintf(&b, "   values there: %s\n", strings.Join(f.Values, " | "))
		}
		fmt.Fprintf(&b, "   now:    %s\n   better: %s\n   %s\n", f.Example, f.Better, f.Advice)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
