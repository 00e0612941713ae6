package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newMigrateCommand() *cobra.Command {
	var file bool
	c := &cobra.Command{
		Use:                   "migrate [--file] -- COMMAND LINE OF sglang-router",
		DisableFlagsInUseLine: true,
		Short:                 "Translate a command line of sglang-router",
		Long: `Migrate translates a command line of sglang-router to one of warmpath serve, and says which
flags have no effect here, and why. warmpath serve also takes such command lines as they are.`,
		Example: `  warmpath migrate -- python3 -m sglang_router.launch_router --worker-urls http://gpu1:30000 http://gpu2:30000 --policy cache_aware
  warmpath migrate --file -- --pd-disaggregation --prefill http://gpu1:30000 8998 --decode http://gpu2:30000 > warmpath.yaml
  warmpath serve --worker-urls http://gpu1:30000 http://gpu2:30000 --policy cache_aware --port 8000`,
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 0 || len(args) == 0 {
				return fmt.Errorf("want sglang-router's command line behind --, as in %s -- --worker-urls http://gpu1:30000", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if first := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--") }); first >= 0 {
				if slices.ContainsFunc(args[:first], func(arg string) bool { return strings.HasSuffix(arg, "launch_server") }) {
					return errors.New("cannot translate launch_server, which starts engines too: start each with python -m sglang.launch_server, and give their URLs to warmpath serve --worker")
				}
				args = args[first:] // behind the name of the program
			}
			m, err := migrate(args)
			if err != nil {
				return err
			}
			return m.print(c.OutOrStdout(), file)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w; sglang-router's command line stands behind --", err)
	})
	c.Flags().BoolVar(&file, "file", false, "print a file for warmpath serve --config")
	return c
}

// print writes the command line or the file, with the notes as comments.
func (m *migration) print(out io.Writer, file bool) error {
	flags := newServeCommand().Flags()
	if err := flags.Parse(m.args); err != nil {
		return fmt.Errorf("cannot translate the command line: %w to sglang-router and to warmpath serve", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("cannot use %q, which belongs to no flag", flags.Arg(0))
	}
	var b strings.Builder
	for _, note := range m.notes {
		b.WriteString("# " + note + "\n")
	}
	if !file {
		b.WriteString("warmpath serve")
		for _, arg := range m.args {
			b.WriteString(" " + quoted(arg))
		}
		_, err := fmt.Fprintln(out, b.String())
		return err
	}
	flags.Visit(func(f *pflag.Flag) {
		many, isList := f.Value.(pflag.SliceValue)
		if !isList {
			fmt.Fprintf(&b, "%s: %s\n", f.Name, scalar(f, f.Value.String()))
			return
		}
		fmt.Fprintf(&b, "%s:\n", f.Name)
		for _, v := range many.GetSlice() {
			fmt.Fprintf(&b, "  - %s\n", scalar(f, v))
		}
	})
	_, err := io.WriteString(out, b.String())
	return err
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// quoted returns a word as a shell reads it.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
