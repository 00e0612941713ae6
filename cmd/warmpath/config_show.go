package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/secrets"
)

func newConfigCommand() *cobra.Command {
	o := serveOptions{}
	var check bool
	c := &cobra.Command{
		Use:                   "config [flags of warmpath serve]",
		DisableFlagsInUseLine: true,
		Short:                 "Show the effective configuration of warmpath serve",
		Long: `Config reads flags, environment and file as warmpath serve does, and prints the
settings in force as a file for --config, with the origin of each value. Secrets are masked. A
default that depends on the machine or on another setting is described behind a #.
With --check it prints only mistakes.`,
		Example: `  warmpath config --config warmpath.yaml
  warmpath config --config warmpath.yaml --check`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := configure(cmd.Flags(), os.Environ())
			if err == nil {
				err = checkZeros(cmd.Flags())
			}
			if err != nil {
				return err
			}
			if _, _, err := newLogger(o.level, o.cfg.Logs.Format); err != nil {
				return err
			}
			o.cfg.Log = quietLogger()
			if err := config.Check(o.cfg); err != nil || check {
				return err
			}
			return showConfig(cmd.OutOrStdout(), cmd.Flags(), from)
		},
	}
	o.flags(c.Flags())
	c.Flags().BoolVar(&check, "check", false, "print mistakes only")
	return c
}

// showConfig prints all settings as YAML.
func showConfig(out io.Writer, f *pflag.FlagSet, from origins) (err error) {
	say := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(out, format, args...)
		}
	}
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Name == "check" || notSetting(flag.Name) {
			return
		}
		origin := "default"
		if from[flag.Name] != "" {
			origin = from[flag.Name]
		}
		many, isList := flag.Value.(pflag.SliceValue)
		told := toldDefault.FindStringSubmatch(flag.Usage)
		switch {
		case !isList && origin == "default" && told != nil && isZero(flag):
			say("# %s: %s # default\n", flag.Name, told[1])
		case !isList && origin == "default" && flag.Value.String() == "":
			// Some cannot be set to nothing.
			say("# %s:\n", flag.Name)
		case !isList:
			say("%s: %s # %s\n", flag.Name, scalar(flag, masked(flag.Name, flag.Value.String())), origin)
		case len(many.GetSlice()) == 0:
			say("%s: [] # %s\n", flag.Name, origin)
		default:
			say("%s: # %s\n", flag.Name, origin)
			for _, v := range many.GetSlice() {
				say("  - %s\n", scalar(flag, masked(flag.Name, v)))
			}
		}
	})
	return err
}

// toldDefault finds the default in a flag's help text. Such a flag has the value zero, which its
// package replaces.
var toldDefault = regexp.MustCompile(`\(default:? ([^)]+)\)$`)

// isZero reports whether a flag's value is the one that stands for the default.
func isZero(flag *pflag.Flag) bool {
	switch flag.Value.String() {
	case "", "0", "0s":
		return true
	default:
		return false
	}
}

// scalar quotes a value where YAML would read it differently.
func scalar(flag *pflag.Flag, value string) string {
	switch flag.Value.Type() {
	case "bool", "int", "int64", "float64", "duration":
		return value
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%q", value)
	}
	return strings.TrimSpace(string(text))
}

// secretFlags are never printed.
var secretFlags = regexp.MustCompile(`(?:^|-)(?:operator-key|api-key|password|token|secret|nkey|seed|creds?)$`)

// masked hides secrets: whole values of flags that are secret, and those in URLs.
func masked(flag, value string) string {
	if value == "" {
		return ""
	}
	if secretFlags.MatchString(flag) && strings.HasPrefix(value, "@") {
		return value // a file's name
	}
	if secretFlags.MatchString(flag) {
		return "***"
	}
	return secrets.MaskURL(value)
}
