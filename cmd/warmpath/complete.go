package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// valuesOf returns the values that a flag can have, for shells; none: any.
func valuesOf(command, flag string) []string {
	switch flag {
	case "policy":
		if command == "policies" || command == "replay" {
			return policies.Names()
		}
		return policy.Names()
	case "kv-without":
		return policy.TermNames()
	case "tokenize":
		return []string{config.TokenizeAuto, config.TokenizeByWorkers}
	case "kv-hints", "replicas":
		return []string{config.HintsAuto, config.HintsOff}
	case "answer-headers":
		return []string{request.AudienceAll, request.AudienceOperators, request.AudienceNone}
	case "log-level":
		return []string{"debug", "info", "warn", "error"}
	case "log-format":
		return []string{formatText, formatJSON}
	case "mode":
		return []string{sim.ModePrefill, sim.ModeDecode}
	}
	return nil
}

// completeValues has shells complete the values of flags and arguments that are known, and no files
// where none is meant.
func completeValues(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if complete := completionOf(c.Name(), f); complete != nil {
			_ = c.RegisterFlagCompletionFunc(f.Name, complete)
		}
	})
	switch c.Name() {
	case "fault":
		c.ValidArgsFunction = eachOf(faultNames, workerURLs)
	case "token":
		c.ValidArgsFunction = eachOf(func(*cobra.Command) []string { return []string{"node", "router", "operator"} })
	case "drain", "undrain", "cordon", "uncordon":
		c.ValidArgsFunction = eachOf(func(c *cobra.Command) []string { return append(workerURLs(c), nodeNames(c)...) })
	case "remove":
		c.ValidArgsFunction = eachOf(workerURLs)
	case "man":
		c.ValidArgsFunction = dirs
	default:
		if c.Args != nil && c.Args(c, []string{"any"}) != nil {
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	for _, sub := range c.Commands() {
		completeValues(sub)
	}
}

// completionOf completes a flag's values; nil: with files.
func completionOf(command string, f *pflag.Flag) cobra.CompletionFunc {
	if values := valuesOf(command, f.Name); values != nil {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	switch kind, _ := pflag.UnquoteUsage(f); kind {
	case "DIR":
		return dirs
	case "URL", "ADDRESS", "NAME", "ORIGIN", "USER", "host:port", "I/N":
		return cobra.NoFileCompletions
	}
	switch strings.TrimSuffix(f.Value.Type(), "Slice") {
	case "int", "int64", "uint", "uint32", "uint64", "float64", "duration":
		return cobra.NoFileCompletions
	}
	return nil
}

func dirs(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// eachOf completes a command's arguments, the first by the first function.
func eachOf(values ...func(*cobra.Command) []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(values) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		fits := slices.DeleteFunc(values[len(args)](c), func(v string) bool { return !strings.HasPrefix(v, begun) })
		return fits, cobra.ShellCompDirectiveNoFileComp
	}
}

func faultNames(*cobra.Command) (names []string) {
	for _, kind := range sim.FaultKinds() {
		names = append(names, kind.Name)
	}
	return names
}

// completionPatience is how long a shell waits for a router: a key was pressed.
const completionPatience = time.Second

// workerURLs are the workers of the router that the command line names.
func workerURLs(c *cobra.Command) (urls []string) {
	for _, w := range knownWorkers(c) {
		urls = append(urls, w.URL)
	}
	return urls
}

// nodeNames are the nodes of these workers.
func nodeNames(c *cobra.Command) (names []string) {
	for _, w := range knownWorkers(c) {
		if w.Node != "" && !slices.Contains(names, w.Node) {
			names = append(names, w.Node)
		}
	}
	return names
}

// knownWorker is a worker as a router lists it.
type knownWorker struct {
	URL  string `json:"url"`
	Node string `json:"node"`
}

// knownWorkers asks the router that the command line names for its workers; without a router there
// is nothing to complete.
func knownWorkers(c *cobra.Command) []knownWorker {
	o := routerOptions{}
	if f := c.Flags().Lookup("router"); f != nil {
		o.url = f.Value.String()
	}
	if f := c.Flags().Lookup("operator-key"); f != nil {
		if v, ok := f.Value.(*secretValue); ok {
			o.key = *v.to
		}
	}
	body, err := o.ask("/workers", nil, completionPatience)
	if err != nil {
		return nil
	}
	var answer struct {
		Workers []knownWorker `json:"workers"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil
	}
	return answer.Workers
}
