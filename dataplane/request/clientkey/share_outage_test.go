package clientkey_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
)

// TestPlacesComeBack: routers lose NATS, die, end and are started again in any order while requests are under way. When all hear each other
// again each knows of exactly the requests that are, and when these have ended all places are there for whoever asks.
func TestPlacesComeBack(t *testing.T) {
	for seed := range uint64(4) {
		bubbletest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			bus := &lossy{rng: rand.New(rand.NewPCG(seed, 2)), loses: 0.2}
			const places = 12
			started := 0
			join := func() *sharer {
				started++
				return joinShare(t, bus, fmt.Sprint("r", started), fmt.Sprint("tokens-per-minute=6000 concurrency=", places), time.Time{})
			}
			all := []*sharer{join(), join(), join()}
			inside := make([][]*clientkey.Key, len(all))
			for range 600 {
				i := rng.IntN(len(all))
				switch s := all[i]; rng.IntN(40) {
				case 0:
					s.bus.isCut.Store(true)
				case 1, 2:
					s.bus.isCut.Store(false)
				case 3: // dies, its last word unheard, or ends
					s.bus.isCut.Store(rng.IntN(2) == 0)
					s.stop()
					all[i], inside[i] = join(), nil
				default:
					if n := len(inside[i]); n > 0 && rng.IntN(2) == 0 {
						inside[i][n-1].Answered(time.Now(), 0, 5, 5)
						inside[i][n-1].End()
						inside[i] = inside[i][:n-1]
					} else if key := s.key(); key.Begin(time.Now()) == nil {
						inside[i] = append(inside[i], key)
					}
				}
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second/2)))
			}
			for _, s := range all {
				s.bus.isCut.Store(false)
			}
			bus.mu.Lock()
			bus.loses = 0
			bus.mu.Unlock()
			time.Sleep(10 * time.Second)
			under := 0
			for _, list := range inside {
				under += len(list)
			}
			for i, s := range all {
				_, known, untold := s.key().Known(time.Now())
				assert.Equal(t, []int{under, 0, len(all)}, []int{known, untold, s.Routers()}, "seed %d, router %d", seed, i)
			}
			for _, list := range inside {
				for _, key := range list {
					key.End()
				}
			}
			time.Sleep(2 * time.Minute) // debts are paid
			for range places {
				require.NoError(t, all[0].key().Begin(time.Now()), "seed %d", seed)
			}
			time.Sleep(time.Second)
			require.Error(t, all[1].key().Begin(time.Now()), "seed %d", seed)
			for _, s := range all {
				s.stop()
			}
			time.Sleep(time.Second)
		})
	}
}

// TestTokensOverTime: a client that asks two routers for three times its tokens gets its tokens, also where they do not hear each other for
// twenty seconds of each minute.
func TestTokensOverTime(t *testing.T) {
	for _, outages := range []bool{false, true} {
		bubbletest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			bus := &lossy{rng: rand.New(rand.NewPCG(3, 4))}
			const perMinute, minutes, estimate, prompt, completion = 6000, 20, 40, 30, 30
			all := []*sharer{
				joinShare(t, bus, "r1", fmt.Sprint("tokens-per-minute=", perMinute), time.Time{}), joinShare(t, bus, "r2", fmt.Sprint("tokens-per-minute=", perMinute), time.Time{}),
			}
			time.Sleep(5 * time.Second)
			tokens, began := 0, time.Now()
			for time.Since(began) < minutes*time.Minute {
				cut := outages && time.Since(began)%time.Minute > 40*time.Second
				for _, s := range all {
					s.bus.isCut.Store(cut)
				}
				if key := all[rng.IntN(2)].key(); key.Begin(time.Now()) == nil {
					if key.Take(time.Now(), estimate) == nil {
						key.Answered(time.Now(), estimate, prompt, completion)
						tokens += prompt + completion
					}
					key.End()
				}
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Minute*(prompt+completion)/(3*perMinute))))
			}
			assert.InDelta(t, (minutes+1)*perMinute, tokens, 0.02*minutes*perMinute, "outages: %v", outages)
			for _, s := range all {
				s.stop()
			}
			time.Sleep(time.Second)
		})
	}
}
