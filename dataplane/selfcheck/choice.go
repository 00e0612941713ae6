package selfcheck

import (
	"slices"
	"strings"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Choice is a policy that could be in force.
type Choice struct {
	Policy  string
	Without policy.Terms // of the kv policy's cost
}

// String names the policy and the terms that it goes without.
func (c Choice) String() string {
	var names []string
	for _, n := range policy.TermNames() {
		if c.Without&policy.TermNamed(n) != 0 {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return c.Policy
	}
	return c.Policy + " without " + strings.Join(names, ", ")
}

// kv is the one policy with terms.
const kv = "kv"

// alternatives lists the policies that a router may change to: rules that weigh both overlap and
// load. Others are right for special traffic only and collapse under the rest. Terms that the
// operator took away stay away.
func alternatives(configured Choice, operator policy.Terms) []Choice {
	all := []Choice{configured, {kv, operator}}
	for _, name := range policy.TermNames() {
		if t := policy.TermNamed(name); t != policy.TermTies && operator&t == 0 {
			all = append(all, Choice{kv, operator | t})
		}
	}
	all = append(all, Choice{Policy: "lmetric"}, Choice{Policy: "staleness"})
	seen := all[:0]
	for _, c := range all {
		if !slices.Contains(seen, c) {
			seen = append(seen, c)
		}
	}
	return seen
}
