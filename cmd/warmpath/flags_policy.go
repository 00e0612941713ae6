package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// policyFlags are the flags of the choice. Those that Dynamo has are named as
// there.
func policyFlags(f *pflag.FlagSet, cfg *router.Config) {
	options := policy.Defaults
	cfg.Policy.Options = &options
	f.StringVar(&cfg.Policy.Name, "policy", "kv", "`NAME` of the routing policy: "+strings.Join(policy.Names(), ", ")+"; warmpath bench policies compares them on a trace, such as an access log")
	f.Float64Var(&options.OverlapWeight, "kv-overlap-score-weight", options.OverlapWeight, "kv, dynamo: worth of a cached token, in tokens to prefill")
	f.Float64Var(&options.Temperature, "router-temperature", 0, "kv, dynamo: 0 takes the cheapest worker; above 0 it is drawn by a softmax over costs")
	f.Var((*termsValue)(&options.Without), "kv-without", "kv: terms of the cost to leave out, to measure what each is worth: "+strings.Join(policy.TermNames(), ", "))
	f.Float64Var(&options.Interval, "staleness-interval", 0, "staleness: seconds between reports of a worker (default 5)")
	f.Var(replicaValue{&options}, "replica",
		"kv: this is router I of N, from 1, that choose among the same workers, named in the same order; each begins with workers of its own")
	f.BoolVar(&cfg.Policy.SessionAffinity, "session-affinity", false,
		"any policy: keep a session that the client names (session_id, X-Session-ID, metadata, conversation, previous_response_id or prompt_cache_key) at its worker while that is fit and not overloaded")
}

// replicaValue is one of several routers as a flag.
type replicaValue struct{ *policy.Options }

var _ pflag.Value = replicaValue{}

// String implements pflag.Value.
func (v replicaValue) String() string {
	if v.Options == nil || v.Replicas == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", v.Replica+1, v.Replicas)
}

// Set implements pflag.Value.
func (v replicaValue) Set(text string) error {
	first, second, _ := strings.Cut(text, "/")
	at, err := strconv.Atoi(first)
	of, err2 := strconv.Atoi(second)
	if err != nil || err2 != nil || at < 1 || at > of {
		return fmt.Errorf("cannot use %q: want I/N, from 1/N to N/N", text)
	}
	v.Replica, v.Replicas = at-1, of
	return nil
}

// Type implements pflag.Value.
func (replicaValue) Type() string { return "I/N" }

// termsValue is a list of terms as a flag.
type termsValue policy.Terms

var _ pflag.Value = (*termsValue)(nil)

// String implements pflag.Value.
func (v *termsValue) String() string {
	var names []string
	for _, n := range policy.TermNames() {
		if policy.Terms(*v)&policy.TermNamed(n) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ",")
}

// Set implements pflag.Value.
func (v *termsValue) Set(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		term := policy.TermNamed(strings.TrimSpace(name))
		if term == 0 {
			return fmt.Errorf("there is no term %q: want some of %s", name, strings.Join(policy.TermNames(), ","))
		}
		*v |= termsValue(term)
	}
	return nil
}

// Type implements pflag.Value.
func (*termsValue) Type() string { return "terms" }
