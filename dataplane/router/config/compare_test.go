package config

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// TestEverySettingIsKnown wants each field of Config in exactly one of live, fixed and noSettings:
// else a reload would ignore it in silence.
func TestEverySettingIsKnown(t *testing.T) {
	count := 0
	eachSetting(reflect.TypeFor[Config](), nil, "", func(name string, _ []int) {
		count++
		n := 0
		if live[name] != "" {
			n++
		}
		if fixed[name] != "" {
			n++
		}
		if slices.Contains(noSettings, name) {
			n++
		}
		require.Equal(t, 1, n, "%s must be in one of live, fixed and noSettings", name)
	})
	require.Equal(t, count, len(live)+len(fixed)+len(noSettings), "names of fields that do not exist")
}

func TestChanged(t *testing.T) {
	kv, other := policy.Defaults, policy.Defaults
	a := Config{Listen: "a", Policy: Policy{Options: &kv}, Requests: Requests{Retries: 3}}
	b := Config{
		Listen: "b", Sources: fleet.SourceConfig{Workers: []string{}}, Policy: Policy{Options: &other}, Requests: Requests{Retries: 4},
		Queue: Queue{Max: 1}, Version: "x",
	}
	can, restart := Changed(&a, &b)
	require.Equal(t, []string{"retries"}, can)
	require.Equal(t, []string{"listen", "queue-max"}, restart)
	other.Temperature = 1
	b.Sources.Workers = []string{"x"}
	can, _ = Changed(&a, &b)
	require.Equal(t, []string{"policy's options", "retries", "worker"}, can)
	can, _ = Changed(&a, &a)
	require.Empty(t, can)
}

func TestHintSettings(t *testing.T) {
	require.ErrorContains(t, Check(Config{Cluster: Cluster{Hints: "maybe"}}), "--kv-hints")
	require.NoError(t, Check(Config{Cluster: Cluster{Hints: HintsOff}}))
}
