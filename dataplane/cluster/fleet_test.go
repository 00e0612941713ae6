package cluster_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// fleetNode is a node of 8 GPUs and 8 workers.
func fleetNode(i int) cluster.Node {
	n := cluster.Node{Name: fmt.Sprintf("gpu-%03d.example", i), Version: "1.0.0", Started: time.Unix(1_700_000_000, 0).UTC(), Driver: "ready", Control: fmt.Sprintf("http://10.0.0.%d:9400", i)}
	for j := range 8 {
		uuid := fmt.Sprintf("GPU-6c3f0f4e-5b1a-4a86-9a4b-%012d", 8*i+j)
		h := cluster.Health{State: "healthy", Weight: 1, Free: 7 << 30}
		n.GPUs = append(n.GPUs, cluster.GPU{UUID: uuid, Index: j, Name: "NVIDIA H200", Total: 141 << 30, Links: 18, LinksUp: 18, Health: h})
		n.Workers = append(n.Workers, cluster.Worker{
			URL: fmt.Sprintf("http://10.0.0.%d:%d", i, 30000+j), Role: "regular", Model: "meta-llama/Llama-3.3-70B-Instruct",
			PID: 4242 + j, GPUs: []string{uuid}, TP: 1, DP: 1, Health: h,
		})
	}
	return n
}

// TestFleet has many nodes and routers at one NATS. WARMPATH_FLEET is the number of nodes, with
// a router for each eight; the test then prints the cost of their state. 125 want some cores.
func TestFleet(t *testing.T) {
	nodes, routers, seconds := 12, 4, 0
	if n, err := strconv.Atoi(os.Getenv("WARMPATH_FLEET")); err == nil {
		nodes, routers, seconds = n, (n+7)/8, 20
	}
	s := natstest.Start(t)
	var all []*cluster.Cluster
	for i := range nodes + routers {
		c := open(t, cluster.Config{URLs: []string{s.URL()}})
		all = append(all, c)
		if i < nodes {
			require.NoError(t, c.AnnounceNode(fleetNode(i)))
		} else {
			require.NoError(t, c.AnnounceRouter(cluster.Router{ID: strconv.Itoa(i), Addr: "127.0.0.1:8000", Version: "1.0.0"}))
		}
	}
	whole := func(c *cluster.Cluster) bool {
		return c.View().Up && len(c.View().Nodes) == nodes && len(c.View().Routers) == routers
	}
	for _, c := range all {
		testkit.AwaitThat(t, func() bool { return whole(c) }, func() any { return []any{len(c.View().Nodes), len(c.View().Routers), c.Status()} })
	}
	if seconds > 0 {
		measureFleet(t, s, all, nodes, seconds)
	}
	// A NATS that comes back has all of them at once.
	s.Kill()
	down(t, all[0])
	s.Run()
	begin := time.Now()
	for _, c := range all {
		testkit.AwaitThat(t, func() bool { return whole(c) }, func() any { return []any{len(c.View().Nodes), len(c.View().Routers), c.Status()} })
	}
	t.Logf("%d nodes and %d routers whole again %v after NATS was back", nodes, routers, time.Since(begin).Round(time.Millisecond))
}

// measureFleet prints NATS's traffic at rest and while each node's numbers change every second.
func measureFleet(t *testing.T, s *natstest.Server, all []*cluster.Cluster, nodes, seconds int) {
	t.Helper()
	record, err := json.Marshal(fleetNode(1))
	require.NoError(t, err)
	t.Logf("a node's record has %d bytes", len(record))
	nc, err := nats.Connect(s.URL())
	require.NoError(t, err)
	defer nc.Close()
	beats := make(chan *nats.Msg, 1<<16)
	_, err = nc.ChanSubscribe("warmpath.cluster.beat.>", beats)
	require.NoError(t, err)
	for _, change := range []bool{false, true} {
		for len(beats) > 0 {
			<-beats
		}
		before, here, begin, writes := s.CPU(), selfCPU(), time.Now(), written(all)
		for i := range seconds {
			for j := 0; change && j < nodes; j++ {
				require.NoError(t, all[j].AnnounceNode(changed(j, i)))
			}
			time.Sleep(time.Until(begin.Add(time.Duration(i+1) * time.Second)))
		}
		took := time.Since(begin).Seconds()
		count, bytes := len(beats), 0
		for range count {
			bytes += len((<-beats).Data)
		}
		rate, out := float64(count)/took, float64(len(all))
		t.Logf("numbers change: %t: %.0f beats/s of %d bytes, to %d listeners: %.0f messages/s, %.2f MB/s; %d writes; CPU: nats-server %.3f cores, %d members %.3f cores together",
			change, rate, bytes/max(count, 1), len(all), rate*out, float64(bytes)/took*out/1e6, written(all)-writes,
			(s.CPU()-before).Seconds()/took, len(all), (selfCPU()-here).Seconds()/took)
	}
}

// changed is a node with other used GPU memory at each step.
func changed(j, step int) cluster.Node {
	n := fleetNode(j)
	for k := range n.GPUs {
		n.GPUs[k].Used = uint64(100<<30 + step*(k+1)<<20)
		n.GPUs[k].Health.Free, n.Workers[k].Health.Free = int64(41<<30-step*(k+1)<<20), int64(41<<30-step*(k+1)<<20)
	}
	return n
}

func written(all []*cluster.Cluster) (n uint64) {
	for _, c := range all {
		n += c.Status().Writes
	}
	return n
}

func selfCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
