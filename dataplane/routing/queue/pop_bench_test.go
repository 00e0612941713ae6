package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

// BenchmarkPop takes one request out of a full queue and puts another one in: the cost of each
// end of an answer while all ranks are full.
func BenchmarkPop(b *testing.B) {
	for _, waiting := range []int{64, 1024, 8192} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			o := queue.NewOrder(queue.Rules{Max: waiting, MaxAge: time.Hour})
			branches := make([]queue.Branch, 256)
			for i := range branches {
				branches[i] = branch(1024, 1, byte(i%16), byte(i))
			}
			push := func(i int) {
				o.Push(&queue.Waiter{Client: uint64(i % 50), Tokens: 3072, DP: queue.AnyDP, Branch: branches[i*7%256]}, 0)
			}
			for i := range waiting {
				push(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				o.Pop(i%8, 0, 0)
				push(i)
			}
		})
	}
}
