package policies

import (
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Material is the recorded traffic of a grid; made traffic needs none.
type Material struct {
	Sessions []trace.Session
	Trace    []Request // of a chat service
	Seed     uint64    // draws all that is made, and how the recorded sessions are played
}

// Read reads files of agent sessions and of a trace in Mooncake's format; an empty name is none.
func (m *Material) Read(sessions, requests string) error {
	if sessions != "" {
		f, err := os.Open(sessions)
		if err != nil {
			return fmt.Errorf("cannot open the sessions: %w", err)
		}
		defer f.Close()
		if m.Sessions, err = trace.ReadSessions(f, 0); err != nil {
			return err
		}
	}
	if requests == "" {
		return nil
	}
	f, err := os.Open(requests)
	if err != nil {
		return fmt.Errorf("cannot open the trace: %w", err)
	}
	defer f.Close()
	t, err := trace.Read(f, 0)
	m.Trace = Recorded(t.Requests)
	return err
}

// Scene is a deployment before a kind of traffic whose load can be changed.
type Scene struct {
	Name   string `json:"name"` // kind and variant
	Kind   string `json:"kind"`
	Config Config `json:"config"`

	traffic traffic
	pool    float64 // share of the working set that all workers together hold
	host    float64 // host tiers, in pools
	common  bool    // is in the quick grid
}

// traffic is a kind of traffic of any load.
type traffic interface {
	// lay makes the traffic of a load.
	lay(load float64, seed uint64, cfg *Config) (*plan, error)
	light() float64 // a load that is carried with ease
	whole() bool    // loads are whole numbers: users
}

// userTraffic is users that play sessions: the load is their number.
type userTraffic struct {
	Users
	sessions []trace.Session
}

func (*userTraffic) light() float64 { return 8 }

func (*userTraffic) whole() bool { return true }

func (u *userTraffic) lay(load float64, seed uint64, cfg *Config) (*plan, error) {
	users, c := u.Users, *cfg
	users.N, c.Seed = max(1, int(load+0.5)), seed
	s, err := newUserStudy(u.sessions, users, c, nil)
	if err != nil {
		return nil, err
	}
	return s.plan, nil
}

// madeTraffic is made requests: the load is their rate a second.
type madeTraffic struct{ *kind }

func (m madeTraffic) light() float64 { return m.kind.light }

func (madeTraffic) whole() bool { return false }

func (m madeTraffic) lay(load float64, seed uint64, cfg *Config) (*plan, error) {
	return newPlan(m.make(seed, load), cfg.PageSize, 1, false), nil
}

// recordedTraffic is a trace: the load is a multiple of its rate.
type recordedTraffic struct{ requests []Request }

func (*recordedTraffic) light() float64 { return 0.1 }

func (*recordedTraffic) whole() bool { return false }

func (r *recordedTraffic) lay(load float64, _ uint64, cfg *Config) (*plan, error) {
	return newPlan(r.requests, cfg.PageSize, load, true), nil
}

// sceneSessions are the sessions of a seed: one half of the recorded ones, or made ones.
func (m *Material) sceneSessions(made bool) []trace.Session {
	if made {
		return MakeSessions(m.Seed, 150)
	}
	g := rand.New(rand.NewPCG(m.Seed, 0xa9e475))
	var half []trace.Session
	for _, i := range g.Perm(len(m.Sessions))[:(len(m.Sessions)+1)/2] {
		half = append(half, m.Sessions[i])
	}
	return half
}

// Scenes lists the scenes of a grid: those of the recorded traffic only where it is given.
func (m *Material) Scenes() (all []*Scene) {
	if len(m.Sessions) > 0 {
		all = append(all, m.sessionScenes("agents", false)...)
	}
	all = append(all, m.sessionScenes("made-agents", true)...)
	if len(m.Trace) > 0 {
		slow, chats := Service{PrefillTokensPerSecond: 7000}, &recordedTraffic{m.Trace}
		for _, pool := range []float64{0.2, 1} {
			all = append(all, &Scene{Name: fmt.Sprintf("pool %g", pool), Kind: "conversation", Config: Config{Service: slow}, traffic: chats, pool: pool, common: pool == 0.2})
		}
		all = append(all, &Scene{Name: "pool 0.2, pairs", Kind: "conversation", Config: Config{Service: slow, Pools: Pools{Prefill: 5}}, traffic: chats, pool: 0.2})
	}
	for i := range kinds {
		f := &kinds[i]
		for _, pool := range []float64{0.2, 0.5, 1} {
			all = append(all, &Scene{Name: fmt.Sprintf("pool %g", pool), Kind: f.name, traffic: madeTraffic{f}, pool: pool, common: pool == 0.2})
		}
	}
	all = append(all, m.unequalScenes()...)
	all = append(all, m.replicaScenes()...)
	for _, s := range all {
		s.Name, s.Config = s.Kind+", "+s.Name, s.Config.withDefaults()
	}
	return all
}

// Unequal and split deployments.
var (
	unequalSpeeds = []float64{0.4, 0.4, 1, 1, 1, 1, 1, 1}
	mixedSpeeds   = []float64{2, 2, 1, 1, 1, 1, 0.5, 0.5}
)

// sessionScenes are sessions in closed and open loop, with pools, host tiers and pairs.
func (m *Material) sessionScenes(kind string, made bool) (all []*Scene) {
	sessions := m.sceneSessions(made)
	for _, open := range []bool{false, true} {
		loop, traffic := "closed", &userTraffic{Users{Warmup: 8 * time.Minute, For: 20 * time.Minute, Open: open}, sessions}
		if open {
			loop = "open"
		}
		for _, pool := range []float64{0.2, 0.4, 0.7, 1} {
			for _, tier := range []float64{0, 2} {
				for _, pairs := range []bool{false, true} {
					if made && (open || pairs || pool == 0.7) {
						continue
					}
					name, cfg := fmt.Sprintf("%s, pool %g", loop, pool), Config{}
					if tier > 0 {
						name += ", host tier"
					}
					if pairs {
						name, cfg.Prefill = name+", pairs", 5
					}
					all = append(all, &Scene{
						Name: name, Kind: kind, Config: cfg, traffic: traffic, pool: pool, host: tier,
						common: tier == 0 && !pairs && pool != 0.7,
					})
				}
			}
		}
	}
	shared := Users{Warmup: 8 * time.Minute, For: 20 * time.Minute, Play: Play{Share: true}}
	return append(all, &Scene{Name: "closed, pool 0.4, shared system prompts", Kind: kind, traffic: &userTraffic{shared, sessions}, pool: 0.4, common: true})
}

// few are traffics for further deployments.
func (m *Material) few() map[string]traffic {
	made := len(m.Sessions) == 0
	out := map[string]traffic{
		"agents": &userTraffic{Users{Warmup: 8 * time.Minute, For: 20 * time.Minute}, m.sceneSessions(made)},
	}
	for i := range kinds {
		out[kinds[i].name] = madeTraffic{&kinds[i]}
	}
	return out
}

func (m *Material) unequalScenes() (all []*Scene) {
	few := m.few()
	for _, name := range []string{"agents", "tenants", "chats"} {
		for i, speeds := range [][]float64{unequalSpeeds, mixedSpeeds} {
			all = append(all, &Scene{
				Name: fmt.Sprintf("%s, speeds %v", name, speeds), Kind: "unequal speeds", Config: Config{Speeds: speeds}, traffic: few[name], pool: 0.4, common: i == 0,
			})
		}
	}
	return all
}

// replicaScenes have 2 and 4 routers: such that learn of each other from workers' reports only,
// and such that tell each other of each request, as routers of one cluster do.
func (m *Material) replicaScenes() (all []*Scene) {
	few := m.few()
	for _, name := range []string{"agents", "tenants", "chats", "mixture"} {
		for _, n := range []int{2, 4} {
			for _, share := range []Sharing{SharePolls, ShareGossip} {
				all = append(all, &Scene{
					Name: fmt.Sprintf("%s, %d routers, %s", name, n, share), Kind: "replicas", Config: Config{Replicas: Replicas{Routers: n, Share: share}},
					traffic: few[name], pool: 0.4, common: n == 2 && name == "agents",
				})
			}
		}
	}
	return all
}

// Common reports whether the scene is in the quick grid.
func (s *Scene) Common() bool { return s.common }
