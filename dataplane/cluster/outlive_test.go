package cluster_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// remake deletes a bucket and makes it anew with as many revisions as more says, so that the
// members' writes do not fail and the new stream may be ahead of the old one or behind it.
func remake(ctx context.Context, js jetstream.JetStream, bucket string, more int) error {
	if err := js.DeleteKeyValue(ctx, bucket); err != nil {
		return err
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, History: 1})
	if err != nil {
		return err
	}
	for range more {
		if _, err := kv.PutString(ctx, "filler", "{}"); err != nil {
			return err
		}
	}
	return nil
}

// TestMarksMadeAnew has an operator delete and make the bucket of marks between two looks. No
// write fails and no beat tells.
func TestMarksMadeAnew(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := natstest.Start(t)
	a, c := join(t, s.URL()), join(t, s.URL())
	for i := range 5 {
		require.NoError(t, setMark(t.Context(), a, cluster.Mark{Target: strconv.Itoa(i), Drain: true}))
	}
	shows(t, c, func(v *cluster.View) bool { return len(v.Marks) == 5 })
	js := jet(t, s)
	require.NoError(t, remake(t.Context(), js, "warmpath-marks", 0))
	kv, err := js.KeyValue(t.Context(), "warmpath-marks")
	require.NoError(t, err)
	_, err = kv.PutString(t.Context(), "new", `{"v":1,"target":"new","drain":true}`) // revision 1, where 6 is the next
	require.NoError(t, err)
	for _, each := range []*cluster.Cluster{a, c, join(t, s.URL())} {
		shows(t, each, func(v *cluster.View) bool { return len(v.Marks) == 6 })
	}
	require.NoError(t, js.DeleteStream(t.Context(), "KV_warmpath-marks"))
	require.NoError(t, remakeEmpty(t.Context(), js))
	late := join(t, s.URL())
	shows(t, late, func(v *cluster.View) bool { return len(v.Marks) == 6 })
	require.NoError(t, setMark(t.Context(), late, cluster.Mark{Target: "new"}))
	for _, each := range []*cluster.Cluster{a, c, late} {
		shows(t, each, func(v *cluster.View) bool { return len(v.Marks) == 5 })
	}
}

func remakeEmpty(ctx context.Context, js jetstream.JetStream) error {
	_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "warmpath-marks", History: 1})
	return err
}

// TestWatchesOutliveNothing loses buckets again and again, in each way and at any moment, while
// records and marks change. All members agree after each loss.
func TestWatchesOutliveNothing(t *testing.T) {
	t.Parallel() // it waits most of its time
	const losses = 16
	rng := rand.New(rand.NewPCG(16, 20))
	s := natstest.Start(t)
	join := func() *cluster.Cluster {
		c := open(t, cluster.LookEvery(cluster.Config{URLs: []string{s.URL()}}, 200*time.Millisecond))
		up(t, c)
		return c
	}
	writer, reader := join(), join()
	js := jet(t, s)
	ways := []func(ctx context.Context, bucket string) error{
		func(ctx context.Context, bucket string) error { return js.DeleteKeyValue(ctx, bucket) },
		func(ctx context.Context, bucket string) error { return remake(ctx, js, bucket, 0) },
		func(ctx context.Context, bucket string) error { return remake(ctx, js, bucket, rng.IntN(100)) },
		func(ctx context.Context, bucket string) error {
			stream, err := js.Stream(ctx, "KV_"+bucket)
			if err != nil {
				return err
			}
			for name := range stream.ListConsumers(ctx).Info() {
				if err := stream.DeleteConsumer(ctx, name.Name); err != nil {
					return err
				}
			}
			return nil
		},
		func(context.Context, string) error {
			s.Kill()
			s.Lose()
			s.Run()
			return nil
		},
	}
	for i := range losses {
		version := strconv.Itoa(i)
		n := node("a")
		n.Version = version
		announced := make(chan error, 1)
		wait, way, bucket := time.Duration(rng.IntN(100))*time.Millisecond, ways[i%len(ways)], []string{"warmpath-records", "warmpath-marks"}[rng.IntN(2)]
		go func() {
			time.Sleep(wait) // anywhere in the loss
			announced <- writer.AnnounceNode(n)
		}()
		lose(t, func(ctx context.Context) error { return way(ctx, bucket) })
		require.NoError(t, <-announced)
		mark := cluster.Mark{Target: version, Drain: true, At: time.Unix(int64(i), 0).UTC()}
		lose(t, func(ctx context.Context) error { return setMark(ctx, reader, mark) })
		late := join()
		for who, each := range map[string]*cluster.Cluster{"writer": writer, "reader": reader, "late": late} {
			testkit.AwaitThat(t, func() bool {
				v := each.View()
				return v.Up && len(v.Nodes) == 1 && v.Nodes[0].Version == version && has(v.Marks, mark) && len(v.Marks) == len(writer.View().Marks)
			}, func() any {
				return []any{"loss", i, bucket, who, text(each.View()), text(writer.View()), each.Status()}
			})
		}
		require.NoError(t, late.Close())
	}
}

// lose tries until NATS takes it: a server that was killed is away for a moment.
func lose(t *testing.T, do func(context.Context) error) {
	t.Helper()
	var err error
	testkit.AwaitThat(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err = do(ctx)
		return err == nil
	}, func() any { return err })
}

func has(list []cluster.Mark, m cluster.Mark) bool {
	return slices.Contains(list, m)
}

func text(v *cluster.View) string {
	b, _ := json.Marshal(v)
	return string(b)
}
