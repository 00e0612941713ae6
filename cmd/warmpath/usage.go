package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// proseWidth is where help wraps on no terminal and on wide ones: the texts of flags are sentences.
const proseWidth = 120

// flagSubject is a subject of flags.
type flagSubject struct {
	title string
	names *regexp.Regexp
}

// flagSubjects are the subjects of a router's flags, in the order in which an operator needs them.
// A flag belongs to the first one that matches its name.
var flagSubjects = []flagSubject{
	{"Workers", regexp.MustCompile(`^(worker|prefill|decode|discover|workers|model|cache-pages|time-scale|no-find|find-ports|find-user|worker-.*)$`)},
	{"Listeners and security", regexp.MustCompile(`^(listen|operator-.*|answer-headers|tls-.*|advertise|name|route|route-listen)$`)},
	{"Clients", regexp.MustCompile(`^(max-clients.*|client-.*|trust.*|max-head-bytes|cors-.*)$`)},
	{"KV tier", regexp.MustCompile(`^kv-(tier.*|hints)$`)},
	{"The choice", regexp.MustCompile(`^(policy|kv-.*|router-temperature|staleness-interval|session-affinity|replica)$`)},
	{"Prefill/decode pairs", regexp.MustCompile(`^(disagg-.*|pair-.*|prefill-timeout)$`)},
	{"Full workers", regexp.MustCompile(`^(queue-.*|max-in-flight-.*)$`)},
	{"Token ids", regexp.MustCompile(`^(tokenize|model-path|allow-model-path|forward-input-ids|lint-sample)$`)},
	{"Cluster", regexp.MustCompile(`^(cluster.*|replicas)$`)},
	{"Health and links", regexp.MustCompile(`^(health-.*|link-.*|nixl-lib)$`)},
	{"Limits and memory", regexp.MustCompile(`^(max-body-bytes|gzip-.*|.*-max-bytes)$`)},
	{"Failures and times", regexp.MustCompile(`^(retries|quarantine|probe-.*|hang-after|.*-timeout)$`)},
	{"Files and logs", regexp.MustCompile(`^(config|snapshot.*|access-log|log-.*|otlp-endpoint|check|help|help-all)$`)},
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
	writeFlags(&b, c, helpWidth())
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\"%s COMMAND --help\" shows more about a command.\n", c.CommandPath())
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

// flagGroup is a subject with its flags.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// groupFlags returns flags by subject where the command is a router, else all of them together.
func groupFlags(all *pflag.FlagSet) (groups []flagGroup) {
	if !isRouter(all) {
		return []flagGroup{{"Flags", all}}
	}
	for _, subject := range append(slices.Clone(flagSubjects), flagSubject{title: "Other flags"}) {
		groups = append(groups, flagGroup{subject.title, pflag.NewFlagSet("", pflag.ContinueOnError)})
	}
	all.VisitAll(func(f *pflag.Flag) { groups[subjectOf(f.Name)].flags.AddFlag(f) })
	return slices.DeleteFunc(groups, func(g flagGroup) bool { return !g.flags.HasFlags() })
}

// helpAllFlag shows all flags of a router.
const helpAllFlag = "help-all"

// commonFlags are those that --help shows of a router; --help-all shows all.
var commonFlags = regexp.MustCompile(`^(worker|workers|prefill|decode|discover|model|time-scale|find-user|no-find|worker-api-key-file|` +
	`listen|operator-key|operator-listen|tls-cert|tls-key|advertise|name|route|route-listen|client-keys|trusted-proxy|` +
	`kv-tier|kv-tier-listen|kv-tier-peer|kv-tier-key-file|policy|session-affinity|queue-timeout|model-path|` +
	`cluster|cluster-listen|cluster-token|index-max-bytes|retries|drain-timeout|` +
	`config|snapshot|access-log|log-.*|otlp-endpoint|check|help|help-all)$`)

// addHelpAll gives a command that routes the flag for its longer help.
func addHelpAll(c *cobra.Command) {
	if isRouter(c.Flags()) {
		c.Flags().Bool(helpAllFlag, false, "help with all flags, rarely needed ones too")
	}
}

// isRouter reports whether flags are those of a command that routes.
func isRouter(f *pflag.FlagSet) bool { return f.Lookup("probe-interval") != nil }

// notSetting reports whether a flag is about the command line itself, and no key of a file.
func notSetting(flag string) bool { return flag == configFlag || flag == "help" || flag == helpAllFlag }

// writeFlags lists flags by subject: of a router the common ones, with --help-all all of them.
func writeFlags(b *strings.Builder, c *cobra.Command, width int) {
	rare := 0
	for _, group := range groupFlags(c.LocalFlags()) {
		shown := group.flags
		if all := c.Flags().Lookup(helpAllFlag); all != nil && !all.Changed {
			shown = pflag.NewFlagSet("", pflag.ContinueOnError)
			group.flags.VisitAll(func(f *pflag.Flag) {
				if commonFlags.MatchString(f.Name) {
					shown.AddFlag(f)
				} else {
					rare++
				}
			})
		}
		if shown.HasAvailableFlags() {
			b.WriteString("\n" + group.title + ":\n" + shown.FlagUsagesWrapped(width))
		}
	}
	if rare > 0 {
		fmt.Fprintf(b, "\n%d more flags are rarely needed: %s --%s\n", rare, c.CommandPath(), helpAllFlag)
	}
}

// subjectOf returns a flag's position in flagSubjects, or the position behind them.
func subjectOf(name string) int {
	for i := range flagSubjects {
		if flagSubjects[i].names.MatchString(name) {
			return i
		}
	}
	return len(flagSubjects)
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
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		f := invalid.GetFlag()
		err = fmt.Errorf("cannot use --%s %s: %w", f.Name, masked(f.Name, invalid.GetValue()), wanted(f, invalid.Unwrap()))
	}
	if name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --"); unknown {
		hint = strings.Replace(meant(c.Flags(), name), ": is ", ": is --", 1)
	}
	return fmt.Errorf("%w%s (%s lists all flags)", err, hint, helpOfAll(c))
}

// helpOfAll is the command line that shows all flags of a command.
func helpOfAll(c *cobra.Command) string {
	if isRouter(c.Flags()) {
		return c.CommandPath() + " --" + helpAllFlag
	}
	return c.CommandPath() + " --help"
}

// noArgs refuses positional arguments; cobra's own check calls them unknown commands.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("cannot use %.64q: %s takes flags only (%s lists them)", args[0], c.CommandPath(), helpOfAll(c))
	}
	return nil
}
