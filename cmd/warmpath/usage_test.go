package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
		help := helpOf(t, c.Name(), "--help-all")
		require.NotContains(t, help, "Other flags")
		for _, g := range flagSubjects[:2] {
			require.Contains(t, help, "\n"+g.title+":\n")
		}
	}
}

// TestHelpAll: --help shows the flags that most people need, and --help-all every one.
func TestHelpAll(t *testing.T) {
	for _, c := range []*cobra.Command{newServeCommand(), newNodeCommand(), newUpCommand(), newConfigCommand()} {
		short, all := helpOf(t, c.Name(), "--help"), helpOf(t, c.Name(), "--help-all")
		flagLine := regexp.MustCompile(`(?m)^(?:  -h, |      )--([a-z-]+)`)
		shown, every := flagLine.FindAllStringSubmatch(short, -1), flagLine.FindAllStringSubmatch(all, -1)
		require.LessOrEqual(t, len(shown), 40, c.Name())
		require.Len(t, every, len(shown)+rareOf(t, short), c.Name())
		c.Flags().VisitAll(func(f *pflag.Flag) { require.Contains(t, all, "--"+f.Name+" ", c.Name()) })
	}
	require.Contains(t, helpOf(t, "serve", "--help"), "--worker URL")
	require.NotContains(t, helpOf(t, "serve", "--help"), "--kv-without")
	require.NotContains(t, helpOf(t, "drain", "--help"), "--help-all")
	require.ErrorContains(t, checkConfigFile(t, "help-all: true\n"), `there is no setting "help-all"`)
}

// rareOf returns how many flags a help says it leaves out.
func rareOf(t *testing.T, help string) int {
	t.Helper()
	m := regexp.MustCompile(`\n(\d+) more flags are rarely needed: warmpath \w+ --help-all\n`).FindStringSubmatch(help)
	require.NotNil(t, m, help)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}

// checkConfigFile has warmpath config read a file with a text.
func checkConfigFile(t *testing.T, text string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "warmpath.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return checkSettings("--config", path)
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

// TestFlagsAreNouns: the help of a flag begins with a noun or a verb, and not in the middle of a
// sentence of which the name is a part.
func TestFlagsAreNouns(t *testing.T) {
	fragment := regexp.MustCompile(`^(?:with --[a-z-]+: )?(of|for|from|between|at|so|how|than|to|until|whose) `)
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			require.NotRegexp(t, fragment, f.Usage, "%s --%s", c.CommandPath(), f.Name)
		})
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(newRoot())
}

func helpOf(t *testing.T, command ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	if !slices.ContainsFunc(command, func(arg string) bool { return strings.HasPrefix(arg, "--help") }) {
		command = append(command, "--help")
	}
	root.SetArgs(command)
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
		{[]string{"serve", "--retries", "x"}, "cannot use --retries x: want a number from 0 to 65535 (warmpath serve --help-all lists all flags)"},
		{[]string{"serve", "--queue-timeout", "10"}, "cannot use --queue-timeout 10: want a number with its unit, as in 500ms, 30s or 5m (warmpath"},
		{[]string{"serve", "--index-max-bytes", "4GB"}, "cannot use --index-max-bytes 4GB: want a whole number (warmpath"},
		{[]string{"serve", "--config", "/none.yaml"}, "bad configuration: cannot read --config: stat /none.yaml: no such file"},
		{[]string{"man"}, "want the folder for the pages"},
		{[]string{"sim", "fault"}, "want a kind of fault and a worker's URL"},
		{[]string{"workers", "--router", "http://127.0.0.1:1"}, "cannot ask the router at http://127.0.0.1:1: dial tcp"},
		{[]string{"serve", "http://a:1"}, "takes flags only"},
		{[]string{"serve", "--listen", "8000"}, `cannot listen on "8000": want host:port`},
		{[]string{"explain", strings.Repeat("x", 65)}, `cannot use "` + strings.Repeat("x", 64) + `": warmpath explain takes flags only`},
		{[]string{"drain"}, "name a node or a worker's URL"},
		{[]string{"explain"}, "give --text, --ids or --body"},
	} {
		root := newRoot()
		root.SetArgs(c.args)
		require.ErrorContains(t, root.Execute(), c.want, c.args)
	}
}

// TestRefusedByARouter: a router that is there is not looked for elsewhere, and no key and a wrong
// one are told apart.
func TestRefusedByARouter(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer s.Close()
	for key, want := range map[string]string{"": "it needs its operator key: give --operator-key", "wrong": "the operator key is wrong"} {
		t.Setenv("WARMPATH_OPERATOR_KEY", key)
		_, err := warmpath(t, "", "workers", "--router", s.URL)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "--cluster")
	}
}
