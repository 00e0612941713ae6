package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// TestManPages: each command has a page, and the page has each of its flags with the words of --help.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	root := newRoot()
	root.SetArgs([]string{"man", dir})
	require.NoError(t, root.Execute())
	for _, command := range []string{"serve", "node", "bench", "bench policies", "key new", "sim fault", "version"} {
		c, _, err := root.Find(strings.Fields(command))
		require.NoError(t, err)
		page, err := os.ReadFile(filepath.Join(dir, "warmpath-"+strings.ReplaceAll(command, " ", "-")+".1"))
		require.NoError(t, err)
		text := strings.ReplaceAll(string(page), `\-`, "-")
		require.Contains(t, text, c.Short)
		require.Contains(t, text, ".SH SEE ALSO")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			_, usage := pflag.UnquoteUsage(f)
			require.Contains(t, text, `\fB--`+f.Name+`\fR`)
			require.Contains(t, text, strings.ReplaceAll(usage, `\`, `\e`))
		})
	}
	overview, err := os.ReadFile(filepath.Join(dir, "warmpath.1"))
	require.NoError(t, err)
	require.Contains(t, string(overview), ".B serve\n")
}

// TestRoff: text that looks like a macro is text.
func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		"a-b": `a\-b`, `a\b`: `a\eb`, ".hidden": `\&.hidden`, "'tis": `\&'tis`, "one\n.two": "one\n\\&.two", "plain. Text": "plain. Text",
	} {
		require.Equal(t, want, roff(text))
	}
	var b strings.Builder
	writeProse(&b, "First.\n  one\n  two\nLast.")
	require.Equal(t, "First.\n.nf\n  one\n  two\n.fi\nLast.\n", b.String())
}
