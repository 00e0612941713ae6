package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Objective is the promise to users: 95 of 100 values are at most these. 0: nothing.
type Objective struct {
	TTFT time.Duration `json:"ttft_p95"`           // default 2 s
	ITL  time.Duration `json:"itl_p95"`            // default 50 ms
	TPOT time.Duration `json:"tpot_p95,omitempty"` // of a request, the mean time between its tokens
}

// Capacity is the number of users that workers carry under each policy.
type Capacity struct {
	Objective
	Seeds    int              `json:"seeds"` // of each number of users, taken together
	Policies []PolicyCapacity `json:"policies"`
}

// PolicyCapacity is the number of users under one policy.
type PolicyCapacity struct {
	Policy string `json:"policy"`
	// Users is the largest number that keeps the objective, as most of its neighbours do. Chance
	// lets single numbers between Sure and Never keep it or not.
	Users int     `json:"users"`
	Sure  int     `json:"sure"`   // all simulated numbers up to it keep the objective
	Never int     `json:"never"`  // from it on none does
	Limit string  `json:"limit"`  // which value more users break first
	At    Probe   `json:"at"`     // with Users
	All   []Probe `json:"probes"` // all simulated numbers, in order
}

// Probe is a simulated number of users.
type Probe struct {
	Users int           `json:"users"`
	TTFT  time.Duration `json:"ttft_p95"`
	ITL   time.Duration `json:"itl_p95"`
	TPOT  time.Duration `json:"tpot_p95"`
	Hits  float64       `json:"hits"`
	Keeps bool          `json:"keeps"`
}

// mostSearched bounds a search: so many users to each worker.
const mostSearched = 4096

// FindUsers searches, for each of the named policies, for the number of users that keeps the
// objective, and adds a comparison of all policies at the largest of these numbers. u.N is not
// used. progress may be nil.
func FindUsers(ctx context.Context, name string, sessions []trace.Session, u Users, cfg Config, names []string, o Objective, seeds int,
	progress func(text string),
) (*Report, error) {
	u, cfg = u.withDefaults(), cfg.withDefaults()
	c, err := findUsers(ctx, sessions, u, cfg, names, o, seeds, progress)
	if err != nil {
		return nil, err
	}
	u.N = max(1, slices.MaxFunc(c.Policies, func(a, b PolicyCapacity) int { return cmp.Compare(a.Users, b.Users) }).Users)
	r, err := SimulateUsers(ctx, name, sessions, u, cfg, names, nil)
	if errors.Is(err, errNoTurn) {
		r, err = &Report{Config: cfg, Users: &u, Trace: Summary{Name: name}}, nil
	}
	if r != nil {
		r.Capacity = c
	}
	return r, err
}

// findUsers searches for each policy. u and cfg have their defaults.
func findUsers(ctx context.Context, sessions []trace.Session, u Users, cfg Config, names []string, o Objective, seeds int, progress func(text string)) (*Capacity, error) {
	or(&o.TTFT, 2*time.Second)
	or(&o.ITL, 50*time.Millisecond)
	if progress == nil {
		progress = func(string) {}
	}
	if o.TTFT < 0 || o.ITL < 0 || o.TPOT < 0 || seeds < 1 || u.Open || len(names) == 0 {
		return nil, fmt.Errorf("cannot search for the users that keep %+v with %d seeds and policies %v: %w", o, seeds, names, ErrConfig)
	}
	if err := errors.Join(u.check(), cfg.check()); err != nil {
		return nil, err
	}
	f := &finder{ctx: ctx, users: u, cfg: cfg, seeds: seeds, sessions: sessions, laid: map[int][]*plan{}}
	c := &Capacity{Objective: o, Seeds: seeds}
	for _, policy := range names {
		one, err := searchUsers(policy, cfg.Workers, o, func(n int) (Probe, error) { return f.probe(policy, n) }, progress)
		if err != nil {
			return nil, fmt.Errorf("cannot find the users that %s carries: %w", policy, err)
		}
		c.Policies = append(c.Policies, *one)
	}
	return c, nil
}

// finder simulates numbers of users.
type finder struct {
	ctx      context.Context //nolint:containedctx // Lives as long as the call of FindUsers.
	users    Users
	cfg      Config
	seeds    int
	sessions []trace.Session
	laid     map[int][]*plan // by number of users, a power of two, one of each seed
}

// plans lays out n users. Those of a smaller number are the first of a larger one.
func (f *finder) plans(n int) (some []*plan, err error) {
	size := 1
	for size < n {
		size *= 2
	}
	if f.laid[size] == nil {
		u := f.users
		u.N = size
		for seed := range f.seeds {
			cfg := f.cfg
			cfg.Seed += uint64(seed)
			s, err := newUserStudy(f.sessions, u, cfg, nil)
			if err != nil {
				return nil, err
			}
			f.laid[size] = append(f.laid[size], s.plan)
		}
	}
	for _, p := range f.laid[size] {
		few, course := *p, *p.course
		course.N, course.begins = n, course.begins[:n]
		few.course = &course
		some = append(some, &few)
	}
	return some, nil
}

// probe simulates n users.
func (f *finder) probe(policy string, n int) (Probe, error) {
	plans, err := f.plans(n)
	if errors.Is(err, errNoTurn) {
		return Probe{}, nil // Nobody waits.
	}
	if err != nil {
		return Probe{}, err
	}
	var runs []*Result
	for seed, p := range plans {
		cfg := f.cfg
		cfg.Seed += uint64(seed)
		s, err := simulate(f.ctx, p, cfg, policy, func(int) {})
		if err != nil {
			return Probe{}, err
		}
		runs = append(runs, s.result())
	}
	r := together(runs)
	return Probe{TTFT: r.TTFT.P95, ITL: r.ITL.P95, TPOT: r.TPOT.P95, Hits: r.Hits}, nil
}

// searcher searches for the users that one policy carries.
type searcher struct {
	policy    string
	workers   int
	objective Objective
	measure   func(users int) (Probe, error)
	progress  func(text string)
	probes    map[int]Probe
}

// searchUsers searches for the number of users that workers carry: measure gives the values of one
// number.
func searchUsers(policy string, workers int, o Objective, measure func(users int) (Probe, error), progress func(text string)) (*PolicyCapacity, error) {
	f := &searcher{policy: policy, workers: workers, objective: o, measure: measure, progress: progress, probes: map[int]Probe{}}
	return f.find()
}

// probe measures n users, once.
func (f *searcher) probe(n int) (Probe, error) {
	if p, ok := f.probes[n]; ok {
		return p, nil
	}
	p, err := f.measure(n)
	if err != nil {
		return p, err
	}
	o := &f.objective
	p.Users = n
	p.Keeps = p.TTFT <= o.TTFT && p.ITL <= o.ITL && (o.TPOT == 0 || p.TPOT <= o.TPOT)
	f.probes[n] = p
	answer := "no"
	if p.Keeps {
		answer = "yes"
	}
	f.progress(fmt.Sprintf("%s, %d users: TTFT p95 %s, ITL p95 %s: %s", f.policy, n, seconds(p.TTFT), milliseconds(p.ITL), answer))
	return p, nil
}

// find searches by doubling and halving, and looks at the neighbours of the number found.
func (f *searcher) find() (*PolicyCapacity, error) {
	low, high, err := f.bracket()
	if err != nil {
		return nil, err
	}
	for high-low > stepOf(low) {
		mid := (low + high) / 2
		p, err := f.probe(mid)
		if err != nil {
			return nil, err
		}
		if p.Keeps {
			low = mid
		} else {
			high = mid
		}
	}
	if low, err = f.settle(low); err != nil {
		return nil, err
	}
	return f.sum(low), nil
}

// fewUsers is the number of users of each worker below which a failure does not end a search: the
// requests are so few that a single session's begin may break the objective.
const fewUsers = 8

// bracket doubles the users until the objective is broken.
func (f *searcher) bracket() (low, high int, err error) {
	for n := f.workers; n <= mostSearched*f.workers; n *= 2 {
		p, err := f.probe(n)
		switch {
		case err != nil:
			return 0, 0, err
		case p.Keeps:
			low, high = n, 2*n
		case n >= fewUsers*f.workers:
			if low == 0 {
				high = f.workers
			}
			return low, high, nil
		}
	}
	return 0, 0, fmt.Errorf("%w: %d users keep the objective, more are not simulated", ErrConfig, low)
}

// stepOf is the precision of a number of users: 2 %.
func stepOf(n int) int { return max(1, n/50) }

// mostSteps bounds the steps to a number on which its neighbours agree.
const mostSteps = 10

// settle moves n until most of it and its two neighbours keep the objective, and of the next
// number not.
func (f *searcher) settle(n int) (int, error) {
	agree := func(n int) (bool, error) {
		keeps, step := 0, stepOf(n)
		for _, k := range []int{n - step, n, n + step} {
			if k < 1 {
				keeps++
				continue
			}
			p, err := f.probe(k)
			if err != nil {
				return false, err
			}
			if p.Keeps {
				keeps++
			}
		}
		return keeps >= 2, nil
	}
	for range mostSteps {
		ok, err := agree(n + stepOf(n))
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		n += stepOf(n)
	}
	for n > 0 {
		ok, err := agree(n)
		if err != nil {
			return 0, err
		}
		if ok && (f.probes[n].Keeps || n <= 1) {
			break
		}
		n = max(0, n-stepOf(n))
	}
	return n, nil
}

// sum sums the probes of a policy up.
func (f *searcher) sum(n int) *PolicyCapacity {
	c := &PolicyCapacity{Policy: f.policy, Users: n, At: f.probes[n]}
	for _, p := range f.probes {
		c.All = append(c.All, p)
	}
	slices.SortFunc(c.All, func(a, b Probe) int { return cmp.Compare(a.Users, b.Users) })
	last := -1
	for i, p := range c.All {
		if p.Keeps {
			if last = i; i == 0 || c.All[i-1].Users == c.Sure {
				c.Sure = p.Users
			}
		}
	}
	if last+1 < len(c.All) {
		p := c.All[last+1]
		c.Never = p.Users
		switch o := &f.objective; {
		case p.TTFT > o.TTFT:
			c.Limit = "TTFT"
		case p.ITL > o.ITL:
			c.Limit = "ITL"
		default:
			c.Limit = "TPOT"
		}
	}
	return c
}

// Table writes the policies by the users that they carry.
func (c *Capacity) Table(w io.Writer, workers int) error {
	fmt.Fprintf(w, "Users that %d workers carry at p95 of TTFT <= %v, ITL <= %v", workers, c.TTFT, c.ITL)
	if c.TPOT > 0 {
		fmt.Fprintf(w, ", TPOT <= %v", c.TPOT)
	}
	fmt.Fprintf(w, " (%d seeds; between the numbers in brackets it is up to chance)\n", c.Seeds)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "policy\tusers\t\ta worker\tTTFT p95\tITL p95\tTPOT p95\thits\tlimited by\t")
	sorted := slices.Clone(c.Policies)
	slices.SortStableFunc(sorted, func(a, b PolicyCapacity) int { return cmp.Compare(b.Users, a.Users) })
	for _, p := range sorted {
		fmt.Fprintf(out, "%s\t%d\t(%d-%d)\t%.1f\t%s\t%s\t%s\t%.1f %%\t%s\t\n", p.Policy, p.Users, p.Sure, p.Never, float64(p.Users)/float64(workers),
			seconds(p.At.TTFT), milliseconds(p.At.ITL), milliseconds(p.At.TPOT), 100*p.At.Hits, p.Limit)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	return nil
}
