package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/router/config"
)

const updateReference = "go test -run Reference . ./cmd/warmpath -update"

// update makes the tests of docs/reference write their pages.
var update = flag.Bool("update", false, "write generated parts of docs/reference")

// TestReferenceCommands compares the page of commands and flags with the commands.
func TestReferenceCommands(t *testing.T) {
	var b strings.Builder
	b.WriteString("| command | purpose |\n| --- | --- |\n")
	for _, c := range documented(newRoot()) {
		fmt.Fprintf(&b, "| [`warmpath %s`](#warmpath-%s) | %s |\n", c.Name(), c.Name(), cell(c.Short))
	}
	b.WriteString("\n")
	writeReference(&b, newRoot())
	compareReference(t, "commands", b.String())
}

// TestReferenceSettings compares the page of settings with the flags of serve.
func TestReferenceSettings(t *testing.T) {
	var b strings.Builder
	flags := newServeCommand().Flags()
	for _, group := range groupFlags(flags) {
		fmt.Fprintf(&b, "## %s\n\n| key | environment | value | default | changes while it runs |\n| --- | --- | --- | --- | --- |\n", group.title)
		group.flags.VisitAll(func(f *pflag.Flag) {
			if notSetting(f.Name) {
				return
			}
			kind, _ := valueOf(f)
			fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", f.Name, envName(f.Name), cell(kind), cell(defaultOf(f)), changesLive(t, f))
		})
		b.WriteString("\n")
	}
	compareReference(t, "settings", b.String())
}

// sglangWords say what flags become that [migration] translates by code.
var sglangWords = map[string]string{
	"host": "`--listen HOST:PORT`", "port": "`--listen HOST:PORT`",
	"prefill": "`--prefill URL,PORT`", "policy": "`--policy`: see below", "pd-disaggregation": "nothing: workers report their roles",
	"service-discovery": "`--discover kubernetes:NAMESPACE/?selector=LABEL%3DVALUE`: " + notePods,
	"selector":          "see `--service-discovery`", "prefill-selector": "see `--service-discovery`", "decode-selector": "see `--service-discovery`",
	"service-discovery-namespace": "see `--service-discovery`; " + noteNamespace,
	"prometheus-port":             "`--operator-listen 127.0.0.1:PORT`", "prometheus-host": "`--operator-listen`, with a key off loopback",
	"max-concurrent-requests": "nothing: a worker gets its batch limit and an eighth, and further requests wait", "queue-size": "`--queue-max`",
	"model-path": "`--model-path`: a folder, or a name at Hugging Face's hub", "tokenizer-path": "`--model-path`: a folder, or a name at Hugging Face's hub",
	"ca-cert-paths": "`--worker-ca`, of one file", "backend": "nothing: workers are SGLang's", "history-backend": "nothing: " + noteHistory,
	"enable-trace": "`--otlp-endpoint`", "otlp-traces-endpoint": "`--otlp-endpoint`, by HTTP",
}

// TestReferenceSGLangRouter compares the page of sglang-router's flags with their translation.
func TestReferenceSGLangRouter(t *testing.T) {
	var b strings.Builder
	b.WriteString("| sglang-router | here |\n| --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(sglangFlags)) {
		f, words := sglangFlags[name], sglangWords[name]
		coded := f.to == "" && f.note == "" && f.refuse == ""
		require.Equal(t, coded, words != "", "sglangWords and sglangFlags disagree on --%s", name)
		switch {
		case coded:
		case f.refuse != "":
			words = "refused: " + f.refuse
		case f.note != "":
			words = "nothing: " + f.note
		default:
			words = strings.TrimSpace("`--"+f.to) + strings.TrimRight(" "+f.fixed, " ") + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | %s |\n", name, cell(words))
	}
	b.WriteString("\n| policy of sglang-router | here |\n| --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(sglangPolicies)) {
		p := sglangPolicies[name]
		words := "`" + p.policy + "`"
		if p.affinity {
			words += " with `--session-affinity`"
		}
		if p.note != "" {
			words += ": " + p.note
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, cell(words))
	}
	compareReference(t, "sglang-router", b.String())
}

// writeReference writes a command and those below it.
func writeReference(b *strings.Builder, c *cobra.Command) {
	if c.HasParent() && c.IsAvailableCommand() && c.Name() != "completion" {
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(b, "## %s\n\n```\n%s\n```\n\n", c.CommandPath(), strings.TrimSpace(text))
		if c.Runnable() {
			fmt.Fprintf(b, "Usage: `%s`\n\n", c.UseLine())
		}
		if c.HasExample() {
			fmt.Fprintf(b, "```\n%s\n```\n\n", c.Example)
		}
		for _, group := range groupFlags(c.LocalFlags()) {
			if !group.flags.HasAvailableFlags() {
				continue
			}
			fmt.Fprintf(b, "| %s | value | default | meaning |\n| --- | --- | --- | --- |\n", strings.ToLower(group.title[:1])+group.title[1:])
			group.flags.VisitAll(func(f *pflag.Flag) {
				if f.Hidden || f.Name == "help" || f.Name == helpAllFlag {
					return
				}
				kind, usage := valueOf(f)
				fmt.Fprintf(b, "| `--%s` | %s | %s | %s |\n", f.Name, cell(kind), cell(defaultOf(f)), cell(usage))
			})
			b.WriteString("\n")
		}
	}
	for _, sub := range documented(c) {
		writeReference(b, sub)
	}
}

// valueOf returns the kind of a flag's value and its help without marks and default.
func valueOf(f *pflag.Flag) (kind, usage string) {
	kind, usage = pflag.UnquoteUsage(f)
	return kind, toldDefault.ReplaceAllString(usage, "")
}

// defaultOf returns a flag's default, in words where it depends on others.
func defaultOf(f *pflag.Flag) string {
	if told := toldDefault.FindStringSubmatch(f.Usage); told != nil {
		return told[1]
	}
	switch f.DefValue {
	case "", "[]", "false", "0s":
		return ""
	}
	return f.DefValue
}

var cellMarks = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "\n", " ", "$", `\$`, "[", `\[`)

// cell is a text within a table of Markdown.
func cell(text string) string { return strings.TrimSpace(cellMarks.Replace(text)) }

// changesLive reports whether a router takes a change of the setting without a restart, by changing
// it.
func changesLive(t *testing.T, f *pflag.Flag) string {
	t.Helper()
	if f.Name == "log-level" {
		return "yes" // the reloader's own
	}
	var before, after serveOptions
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	before.flags(pflag.NewFlagSet("", pflag.ContinueOnError))
	after.flags(flags)
	require.NoError(t, flags.Set(f.Name, another(f)), f.Name)
	before.cfg.Cluster.Joined, after.cfg.Cluster.Joined = before.cluster, after.cluster
	can, restart := config.Changed(&before.cfg, &after.cfg)
	require.NotEqual(t, len(can) > 0, len(restart) > 0, "--%s changes %v and %v", f.Name, can, restart)
	if len(can) > 0 {
		return "yes"
	}
	return ""
}

// another returns a value that is not the default.
func another(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return map[string]string{"true": "false", "false": "true"}[f.DefValue]
	case "int", "int64":
		return "7"
	case "float64":
		return "0.5"
	case "duration":
		return (7 * time.Minute).String()
	case "I/N":
		return "1/2"
	case "terms":
		return "queue"
	}
	if f.Name == "policy" {
		return "random"
	}
	return "http://other:1"
}

// compareReference compares the generated part of a page in docs/reference, or writes it.
func compareReference(t *testing.T, name, part string) {
	t.Helper()
	path := "../../docs/reference/" + name + ".md"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	marks := regexp.MustCompile(`(?s)(<!-- ` + name + `: generated by ` + regexp.QuoteMeta(updateReference) + ` -->\n).*(<!-- ` + name + `: end -->)`)
	at := marks.FindSubmatchIndex(page)
	require.NotNil(t, at, "%s lacks its marks", path)
	want := string(page[:at[3]]) + part + string(page[at[4]:])
	if want == string(page) {
		return
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	t.Errorf("%s is stale: run %s", path, updateReference)
}

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
