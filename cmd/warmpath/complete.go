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
		if command == "policies" || command == "replay" || command == "forecast" {
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
	case "kv-tier-eviction":
		return []string{"adaptive", "lru"}
	case "mode":
		return []string{sim.ModePrefill, sim.ModeDecode}
	}
	return nil
}

// completeValues has shells complete the values of flags and arguments that are known.
func completeValues(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if values := valuesOf(c.Name(), f.Name); values != nil {
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	switch c.Name() {
	case "fault":
		c.ValidArgsFunction = firstOf(faultNames)
	case "token":
		c.ValidArgsFunction = firstOf(func(*cobra.Command) []string { return []string{"node", "router", "operator"} })
	case "drain", "undrain":
		c.ValidArgsFunction = firstOf(workerURLs)
	}
	for _, sub := range c.Commands() {
		completeValues(sub)
	}
}

// firstOf completes a command's first argument.
func firstOf(values func(*cobra.Command) []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		fits := slices.DeleteFunc(values(c), func(v string) bool { return !strings.HasPrefix(v, begun) })
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

// workerURLs asks the router that the command line names for its workers.
func workerURLs(c *cobra.Command) (urls []string) {
	o := routerOptions{}
	if f := c.Flags().Lookup("router"); f != nil {
		o.url = f.Value.String()
	}
	if v, ok := c.Flags().Lookup("operator-key").Value.(*secretValue); ok {
		o.key = *v.to
	}
	body, err := o.ask("/workers", nil, completionPatience)
	if err != nil {
		return nil // no router, nothing to complete
	}
	var answer struct {
		Workers []struct {
			URL string `json:"url"`
		} `json:"workers"`
	}
	if json.Unmarshal(body, &answer) == nil {
		for _, w := range answer.Workers {
			urls = append(urls, w.URL)
		}
	}
	return urls
}
