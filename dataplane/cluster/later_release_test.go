package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// TestALaterRelease takes a node's name over, as in a rolling upgrade, and goes again: nothing that it
// wrote is read, deleted or written over while it lives.
func TestALaterRelease(t *testing.T) {
	s := natstest.Start(t)
	log := &testkit.Text{}
	a, c := join(t, s.URL()), open(t, cluster.Config{URLs: []string{s.URL()}, Log: log.Log()})
	up(t, c)
	require.NoError(t, a.AnnounceNode(node("n")))
	mark := cluster.Mark{Target: "n", Drain: true, By: "me", At: time.Unix(1_700_000_000, 0).UTC()}
	require.NoError(t, setMark(t.Context(), a, mark))
	shows(t, c, func(v *cluster.View) bool { return len(v.Nodes) == 1 && len(v.Marks) == 1 })

	const record, marked = `{"v":2,"instance":"later","seq":1,"node":{"name":"n","workers":"elsewhere"}}`, `{"v":2,"target":"n","until":9}`
	js := jet(t, s)
	put := func(bucket, key, value string) (get func() string) {
		kv, err := js.KeyValue(t.Context(), "warmpath-"+bucket)
		require.NoError(t, err)
		_, err = kv.PutString(t.Context(), key, value)
		require.NoError(t, err)
		return func() string {
			e, err := kv.Get(t.Context(), key)
			require.NoError(t, err)
			return string(e.Value())
		}
	}
	beating, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			_ = js.Conn().Publish("warmpath.cluster.beat.node.n", []byte(`{"v":2,"k":"node","n":"n","i":"later","s":1}`))
			select {
			case <-tick.C:
			case <-beating.Done():
				return
			}
		}
	}()
	inRecords, inMarks := put("records", "node.n", record), put("marks", "n", marked)
	lives := func(v *cluster.View) bool { return len(v.Nodes) == 0 && len(v.Newer) == 1 && v.Newer[0] == "n" }
	shows(t, c, lives)
	shows(t, join(t, s.URL()), lives)
	testkit.AwaitThat(t, func() bool { return a.Status().Conflicts > 0 }, func() any { return a.Status() })
	writes, changed := a.Status().Writes, node("n")
	changed.Version = "changed"
	require.NoError(t, a.AnnounceNode(changed))
	time.Sleep(2 * cluster.Lease) // longer than a name that is free waits for
	require.Equal(t, writes, a.Status().Writes)
	require.Equal(t, record, inRecords())
	require.Equal(t, marked, inMarks())
	require.Equal(t, []cluster.Mark{mark}, c.View().Marks, "the last one that could be read")
	assert.Equal(t, 1, strings.Count(log.String(), `source="node.n (newer)"`), log.String())

	stop() // and the node goes back to this release
	<-done
	shows(t, c, func(v *cluster.View) bool {
		return len(v.Newer) == 0 && len(v.Nodes) == 1 && v.Nodes[0].Version == "changed"
	})
}
