package main

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Whoever asks for help with a command that routes finds each flag under a subject, and none under two.
func TestFlagsHaveASubject(t *testing.T) {
	for _, c := range []*cobra.Command{newServeCommand(), newNodeCommand(), newUpCommand(), newConfigCommand()} {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			require.Less(t, subjectOf(f.Name), len(flagSubjects), "flagSubjects does not know --%s of %s", f.Name, c.Name())
		})
		help := helpOf(t, c.Name())
		require.NotContains(t, help, "Other flags")
		for _, g := range flagSubjects[:2] {
			require.Contains(t, help, "\n"+g.title+":\n")
		}
	}
}

// Every command stands under one heading; what Go calls a type is shown to nobody.
func TestHelp(t *testing.T) {
	help := helpOf(t)
	for _, c := range newRoot().Commands() {
		require.NotEmpty(t, c.GroupID, c.Name())
		require.Contains(t, help, "\n  "+c.Name()+" ")
		require.NotRegexp(t, `--\S+ (stringArray|strings|ints|float64Slice) `, helpOf(t, c.Name()))
	}
	require.Contains(t, helpOf(t, "bench"), "\nCommands:\n")
}

func helpOf(t *testing.T, command ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs(append(command, "--help"))
	require.NoError(t, root.Execute())
	return out.String()
}

// A slip on the command line is answered with what was probably meant, or with where to look.
func TestWrongCommandLines(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--workr", "http://a:1"}, "is --worker meant? (warmpath serve --help"},
		{[]string{"serve", "--retries", "x"}, "warmpath serve --help lists all flags"},
		{[]string{"serve", "http://a:1"}, "takes flags only"},
		{[]string{"serve", "--listen", "8000"}, `cannot listen on "8000": want host:port`},
		{[]string{"drain"}, "name one, a node or a worker's URL"},
		{[]string{"explain"}, "give --text, --ids or --body"},
	} {
		root := newRoot()
		root.SetArgs(c.args)
		require.ErrorContains(t, root.Execute(), c.want, c.args)
	}
}
