package top_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin/top"
)

// TestPlain: what a terminal would obey is left out, wherever writes begin and end.
func TestPlain(t *testing.T) {
	const said = "a\tb\x1b]0;title\x07 \x1b[2Jc\rd\be\x7f \u009b31m\u202egnp.exe\u2066 \x00é€\U0001F600 \xff \xc3\n\xe2\x82"
	for step := 1; step <= len(said); step++ {
		var out strings.Builder
		w := top.Plain(&out)
		for rest := said; rest != ""; {
			n, err := w.Write([]byte(rest[:min(step, len(rest))]))
			require.NoError(t, err)
			rest = rest[n:]
		}
		require.Equal(t, "a\tb]0;title [2Jcde 31mgnp.exe é€\U0001F600 ? ?\n", out.String(), "in pieces of %d", step)
	}
}
