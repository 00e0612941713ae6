package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write man pages of all commands to a folder",
		Long:  "Man writes a page for each command, made of the same texts as --help.",
		Example: `  warmpath man /usr/local/share/man/man1
  warmpath man man1 && man -l man1/warmpath-serve.1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("want the folder for the pages, as in warmpath man man1")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("cannot make the folder of the pages: %w", err)
			}
			return writeManPages(args[0], c.Root())
		},
	}
}

// writeManPages writes the page of a command and those of all below it.
func writeManPages(dir string, c *cobra.Command) error {
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(manPage(name, c)), 0o644); err != nil {
		return fmt.Errorf("cannot write the page of %s: %w", c.CommandPath(), err)
	}
	for _, sub := range documented(c) {
		if err := writeManPages(dir, sub); err != nil {
			return err
		}
	}
	return nil
}

// documented returns the commands below one that have pages: all but cobra's own.
func documented(c *cobra.Command) (subs []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" {
			subs = append(subs, sub)
		}
	}
	return subs
}

// manPage is a command's page in the macros of man(7).
func manPage(name string, c *cobra.Command) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`.TH "%s" 1 "" "warmpath %s"`, strings.ToUpper(name), roff(thisBuild().version))
	line(".SH NAME\n%s \\- %s", roff(name), roff(c.Short))
	line(".SH SYNOPSIS\n.B %s", roff(c.UseLine()))
	if c.Long != "" {
		line(".SH DESCRIPTION")
		writeProse(&b, c.Long)
	}
	if subs := documented(c); len(subs) > 0 {
		line(".SH COMMANDS")
		for _, sub := range subs {
			line(".TP\n.B %s\n%s", roff(sub.Name()), roff(sub.Short))
		}
	}
	if c.LocalFlags().HasAvailableFlags() {
		line(".SH OPTIONS")
		for _, group := range groupFlags(c.LocalFlags()) {
			if group.title != "Flags" {
				line(".SS %s", roff(group.title))
			}
			group.flags.VisitAll(func(f *pflag.Flag) {
				kind, usage := pflag.UnquoteUsage(f)
				line(".TP\n\\fB%s\\fR \\fI%s\\fR\n%s", roff("--"+f.Name), roff(kind), roff(usage))
			})
		}
	}
	if c.HasExample() {
		line(".SH EXAMPLES\n.nf\n%s\n.fi", roff(c.Example))
	}
	if c.HasParent() {
		line(".SH SEE ALSO\n.BR %s (1)", roff(strings.ReplaceAll(c.Parent().CommandPath(), " ", "-")))
	}
	return b.String()
}

// writeProse writes paragraphs. Lines that are indented, as in lists, keep their ends.
func writeProse(b *strings.Builder, text string) {
	asIs := false
	for text := range strings.Lines(text + "\n") {
		text = strings.TrimRight(text, "\n")
		if indented := strings.HasPrefix(text, " "); indented != asIs {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[indented])
			asIs = indented
		}
		if text == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(roff(text) + "\n")
	}
	if asIs {
		b.WriteString(".fi\n")
	}
}

var roffMarks = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")

// roff escapes text. A line that begins with a dot or an apostrophe would be a macro.
func roff(text string) string {
	text = roffMarks.Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
