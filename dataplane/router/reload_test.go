package router

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// TestEverySettingIsKnown wants each field of Config to be one that can change at run time, one that cannot, or no setting: else a
// reload would ignore it in silence.
func TestEverySettingIsKnown(t *testing.T) {
	typ := reflect.TypeFor[Config]()
	for field := range typ.Fields() {
		name, n := field.Name, 0
		if live[name] != "" {
			n++
		}
		if fixed[name] != "" {
			n++
		}
		if slices.Contains(ours, name) {
			n++
		}
		require.Equal(t, 1, n, "%s must be in one of live, fixed and ours", name)
	}
	require.Equal(t, typ.NumField(), len(live)+len(fixed)+len(ours), "names of fields that there are not")
}

func TestDifferences(t *testing.T) {
	kv, other := policy.Defaults, policy.Defaults
	a := Config{Listen: "a", Workers: nil, Policies: &kv, Retries: 3}
	b := Config{Listen: "b", Workers: []string{}, Policies: &other, Retries: 4, QueueMax: 1, Version: "x"}
	require.Equal(t, []string{"retries"}, differences(&a, &b, true))
	require.Equal(t, []string{"listen", "queue-max"}, differences(&a, &b, false))
	other.Temperature = 1
	b.Workers = []string{"x"}
	require.Equal(t, []string{"policy's options", "retries", "worker"}, differences(&a, &b, true))
	require.Empty(t, differences(&a, &a, true))
}
