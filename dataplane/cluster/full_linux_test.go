package cluster_test

import (
	"context"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// TestFullDisk: the embedded server writes again once there is room, and has all marks. The limit is
// of a process, and go test's own file of this one must not meet it.
func TestFullDisk(t *testing.T) {
	if isInner, output, err := testkit.Inner(t); !isInner {
		require.NoError(t, err, output)
		return
	}
	signal.Ignore(syscall.SIGXFSZ) // a write fails as on a full disk
	defer signal.Reset(syscall.SIGXFSZ)
	dir := t.TempDir()
	full := open(t, cluster.LookEvery(cluster.Config{StoreDir: dir, Token: secret}, 200*time.Millisecond))
	up(t, full)
	member := open(t, cluster.LookEvery(cluster.Config{URLs: []string{full.URL()}, Token: secret}, 200*time.Millisecond))
	up(t, member)
	mark := func(target string) error {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		return setMark(ctx, member, cluster.Mark{Target: target, Drain: true, By: strings.Repeat("x", 20<<10)})
	}
	require.NoError(t, mark("before"))
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	limit := func(n uint64) {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: before.Max}))
	}
	limit(4 << 10)
	defer limit(before.Cur)
	require.Error(t, mark("within"))
	limit(before.Cur)
	testkit.AwaitThat(t, func() bool { return mark("after") == nil }, func() any { return full.Status() })
	require.NoError(t, member.AnnounceNode(node("a")))
	for _, c := range []*cluster.Cluster{full, member} {
		shows(t, c, func(v *cluster.View) bool {
			list := map[string]bool{}
			for _, m := range v.Marks {
				list[m.Target] = true
			}
			return v.Up && list["before"] && list["after"] && len(v.Nodes) == 1
		})
	}
}
