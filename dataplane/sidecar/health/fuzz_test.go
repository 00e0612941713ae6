package health

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/nvml"
)

// FuzzXIDs checks any history of XIDs: program errors alone leave a GPU healthy, an XID that asks
// for a reset never does, and a GPU that came back after all of them is healthy.
func FuzzXIDs(f *testing.F) {
	f.Add([]byte{79})
	f.Add([]byte{48, 94, 63})
	f.Add([]byte{48, 95})
	f.Add([]byte{13, 31, 43, 45, 255})
	f.Fuzz(func(t *testing.T, codes []byte) {
		if len(codes) > 32 {
			codes = codes[:32]
		}
		g := nvml.GPU{Since: epoch.Add(-time.Hour)}
		worst := Healthy
		for i, code := range codes {
			g.XIDs = append(g.XIDs, nvml.XID{Code: int(code), At: epoch.Add(time.Duration(i) * time.Millisecond)})
			switch x := classify(int(code)); {
			case x.kind == application:
			case x.kind == dead && code != 48: // 48 depends on its neighbours
				worst = Dead
			case x.kind == drain:
				worst = max(worst, Draining)
			default:
				worst = max(worst, Degraded)
			}
		}
		facts := &Facts{Now: epoch.Add(time.Second), GPU: &g}
		res := combine(Evaluate(facts))
		if res.State < worst || (worst == Healthy && res.State != Healthy) || res.Weight <= 0 || res.Weight > 1 {
			t.Errorf("XIDs %v: %+v, want at least %v", codes, res, worst)
		}
		if worst >= Draining && res.TP {
			t.Errorf("XIDs %v leave tensor-parallel work: %+v", codes, res)
		}
		g.Since = facts.Now
		if res := combine(Evaluate(facts)); res.State != Healthy {
			t.Errorf("XIDs %v before the reset still count: %+v", codes, res)
		}
	})
}
