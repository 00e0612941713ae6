package cluster

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
)

// TestStoredWatch reads what JetStream delivers for a holder, and ends at a message that is lost or of somebody else.
func TestStoredWatch(t *testing.T) {
	entry := func(key string, revision, number, pending int, header ...string) *nats.Msg {
		m := &nats.Msg{Subject: "$KV.b." + key, Reply: fmt.Sprintf("$JS.ACK.KV_b.c.1.%d.%d.1700000000000000000.%d", revision, number, pending), Sub: &nats.Subscription{}, Header: nats.Header{}}
		for _, h := range header {
			m.Header.Set(h, "x")
		}
		return m
	}
	forged := entry("x", 9, 2, 0)
	forged.Subject = "warmpath.cluster.reply.node.a.secret"
	for name, tt := range map[string]struct {
		pending  uint64
		messages []*nats.Msg
		want     string
	}{
		"an empty bucket":            {0, []*nats.Msg{entry("a", 1, 1, 0)}, "whole a@1 "},
		"a snapshot and news":        {2, []*nats.Msg{entry("a", 1, 1, 1), entry("b", 5, 2, 0), entry("a", 6, 3, 0)}, "a@1 b@5 whole a@6 "},
		"a key that was overwritten": {3, []*nats.Msg{entry("a", 1, 1, 1), entry("b", 5, 2, 0), entry("c", 6, 3, 0)}, "a@1 b@5 whole c@6 "},
		"a deleted and an aged key":  {0, []*nats.Msg{entry("a", 1, 1, 0, "KV-Operation"), entry("a", 2, 2, 0, "Nats-Marker-Reason")}, "whole a@1 gone a@2 gone "},
		"a lost message":             {1, []*nats.Msg{entry("a", 1, 1, 0), entry("c", 3, 3, 0)}, "a@1 whole end"},
		"of somebody else":           {1, []*nats.Msg{entry("a", 1, 1, 0), forged}, "a@1 whole end"},
		"no entry":                   {1, []*nats.Msg{{Subject: "$KV.b.a", Sub: &nats.Subscription{}}}, "end"},
	} {
		w := &storedWatch{keys: "$KV.b.", messages: make(chan *nats.Msg, len(tt.messages)), updates: make(chan jetstream.KeyValueEntry), stopped: make(chan struct{})}
		for _, m := range tt.messages {
			w.messages <- m
		}
		done := make(chan struct{})
		go func() {
			defer close(w.updates)
			w.run(context.Background(), tt.pending)
			close(done)
		}()
		got := ""
		for len(got) < len(tt.want) {
			e, ok := <-w.updates
			switch {
			case !ok:
				got += "end"
			case e == nil:
				got += "whole "
			default:
				got += fmt.Sprintf("%s@%d ", e.Key(), e.Revision())
				if e.Operation() != jetstream.KeyValuePut {
					got += "gone "
				}
			}
		}
		assert.Equal(t, tt.want, got, name)
		assert.NoError(t, w.Stop())
		assert.NoError(t, w.Stop())
		<-done
	}
}
