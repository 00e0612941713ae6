//go:build soak

package request_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestFastFailureInAnOpenLoop: requests come at a steady pace, whoever is answered. On a quiet
// machine most clients get good answers.
func TestFastFailureInAnOpenLoop(t *testing.T) {
	const n = 120
	for _, stream := range []bool{false, true} {
		for _, f := range fastFaults(stream) {
			t.Run(fmt.Sprintf("%s/stream=%v", f.name, stream), func(t *testing.T) {
				h := startFailing(t, &f)
				var bad atomic.Int64
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() {
						body := fmt.Sprintf(`{"input_ids":[%d,2,3,4,5,6,7,8,9],"stream":%v}`, i, stream)
						resp, got, err := h.do(http.MethodPost, h.base+"/generate", body)
						if !isGood(statusOf(resp), got, err, stream) {
							bad.Add(1)
						}
					})
					time.Sleep(2 * time.Millisecond)
				}
				wg.Wait()
				most := int64(8)
				if f.late { // whatever was begun when the breaker opened
					most = 24
				}
				assert.LessOrEqual(t, bad.Load(), most, "of %d requests", n)
			})
		}
	}
}
