package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// proseWidth is where help wraps on no terminal and on wide ones: the texts of flags are sentences.
const proseWidth = 120

// flagGroups are the subjects of a router's 70 flags, in the order in which an operator needs them.
// A flag belongs to the first group that matches its name.
var flagGroups = []struct {
	title string
	names *regexp.Regexp
}{
	{"Workers", regexp.MustCompile(`^(worker|prefill|decode|discover|workers|model|cache-pages|time-scale|no-find|find-ports|find-user|worker-.*)$`)},
	{"Listeners and security", regexp.MustCompile(`^(listen|operator-.*|answer-headers|tls-.*|advertise|name|route|route-listen)$`)},
	{"Clients", regexp.MustCompile(`^(max-clients.*|client-.*|trust.*|max-head-bytes)$`)},
	{"KV tier", regexp.MustCompile(`^kv-(tier.*|hints)$`)},
	{"The choice", regexp.MustCompile(`^(policy|kv-.*|router-temperature|staleness-interval|session-affinity|replica)$`)},
	{"Prefill/decode pairs", regexp.MustCompile(`^(disagg-.*|pair-.*|prefill-timeout)$`)},
	{"Full workers", regexp.MustCompile(`^(queue-.*|max-in-flight-.*)$`)},
	{"Token ids", regexp.MustCompile(`^(tokenize|model-path|allow-model-path|forward-input-ids|lint-sample)$`)},
	{"Cluster", regexp.MustCompile(`^(cluster.*|replicas)$`)},
	{"Health and links", regexp.MustCompile(`^(health-.*|link-.*|nixl-lib)$`)},
	{"Limits and memory", regexp.MustCompile(`^(max-body-bytes|gzip-.*|.*-max-bytes)$`)},
	{"Failures and times", regexp.MustCompile(`^(retries|quarantine|probe-.*|hang-after|.*-timeout)$`)},
	{"Files and logs", regexp.MustCompile(`^(config|snapshot.*|access-log|log-.*|otlp-endpoint|check|help)$`)},
}

// usage writes the part of --help below a command's description.
func usage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:")
	if c.Runnable() {
		b.WriteString("\n  " + c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + " COMMAND")
	}
	b.WriteByte('\n')
	if c.HasExample() {
		b.WriteString("\nExamples:\n" + c.Example + "\n")
	}
	writeCommands(&b, c)
	writeFlags(&b, c.LocalFlags(), helpWidth())
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\"%s COMMAND --help\" says more of a command.\n", c.CommandPath())
	}
	_, err := c.OutOrStderr().Write([]byte(b.String()))
	return err
}

// writeCommands lists subcommands by group.
func writeCommands(b *strings.Builder, c *cobra.Command) {
	groups := append(c.Groups(), &cobra.Group{Title: "Commands"})
	for i, g := range groups {
		title := g.Title
		if i > 0 && i == len(groups)-1 {
			title = "More"
		}
		for _, sub := range c.Commands() {
			if sub.GroupID != g.ID || !sub.IsAvailableCommand() && sub.Name() != "help" {
				continue
			}
			if title != "" {
				b.WriteString("\n" + title + ":\n")
				title = ""
			}
			fmt.Fprintf(b, "  %-*s  %s\n", c.NamePadding(), sub.Name(), sub.Short)
		}
	}
}

// writeFlags lists flags, by subject where the command is a router.
func writeFlags(b *strings.Builder, all *pflag.FlagSet, width int) {
	if !all.HasAvailableFlags() {
		return
	}
	if all.Lookup("probe-interval") == nil {
		b.WriteString("\nFlags:\n" + all.FlagUsagesWrapped(width))
		return
	}
	sets := make([]*pflag.FlagSet, len(flagGroups)+1)
	for i := range sets {
		sets[i] = pflag.NewFlagSet("", pflag.ContinueOnError)
	}
	all.VisitAll(func(f *pflag.Flag) { sets[flagGroup(f.Name)].AddFlag(f) })
	for i, set := range sets {
		if !set.HasAvailableFlags() {
			continue
		}
		title := "Other flags"
		if i < len(flagGroups) {
			title = flagGroups[i].title
		}
		b.WriteString("\n" + title + ":\n" + set.FlagUsagesWrapped(width))
	}
}

// flagGroup returns a flag's position in flagGroups, or the position behind them.
func flagGroup(name string) int {
	for i := range flagGroups {
		if flagGroups[i].names.MatchString(name) {
			return i
		}
	}
	return len(flagGroups)
}

func helpWidth() int {
	if columns, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && columns > 0 {
		return min(columns, proseWidth)
	}
	return proseWidth
}

// wrongFlag suggests the nearest flag and names the list of all flags.
func wrongFlag(c *cobra.Command, err error) error {
	hint := ""
	if name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --"); unknown {
		hint = strings.Replace(meant(c.Flags(), name), ": is ", ": is --", 1)
	}
	return fmt.Errorf("%w%s (%s --help lists all flags)", err, hint, c.CommandPath())
}

// noArgs refuses positional arguments; cobra's own check calls them unknown commands.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("cannot use %q: %s takes flags only (%s --help lists them)", args[0], c.CommandPath(), c.CommandPath())
	}
	return nil
}
