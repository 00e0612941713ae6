package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// dnsInterval is the time between two queries: that of Kubernetes' records, which live for 5 s,
// and less than most others.
const dnsInterval = 5 * time.Second

// srv asks for the SRV records of a name again and again.
type srv struct {
	*report
	fqdn     string
	role     worker.Role
	scheme   string
	interval time.Duration
	asker    asker
}

var (
	_ Source   = (*srv)(nil)
	_ Troubled = (*srv)(nil)
)

// newDNS reads "[ROLE:]NAME" with the options interval, scheme and server.
func newDNS(rest string, o *options, r *report) (Source, error) {
	s := &srv{report: r, interval: dnsInterval}
	name := rest
	if role, after, found := strings.Cut(rest, ":"); found {
		var err error
		if s.role, err = worker.ParseRole(role); err != nil {
			return nil, err
		}
		name = after
	}
	if strings.Trim(name, ".") == "" || strings.ContainsAny(name, ":/ ") {
		return nil, errors.New("want dns-srv:[ROLE:]NAME, such as dns-srv:_sglang._tcp.workers.example")
	}
	s.fqdn = strings.TrimSuffix(name, ".") + "."
	if _, err := query(s.fqdn, 0); err != nil {
		return nil, fmt.Errorf("cannot ask for %q: %w", name, err)
	}
	var err error
	if s.scheme, err = o.scheme(); err != nil {
		return nil, err
	}
	every := o.take("interval", dnsInterval.String())
	if s.interval, err = time.ParseDuration(every); err != nil || s.interval < 100*time.Millisecond {
		return nil, fmt.Errorf("cannot use interval %q: want a duration from 100ms", every)
	}
	if server := o.take("server", ""); server != "" {
		if _, _, err := net.SplitHostPort(server); err != nil {
			server = net.JoinHostPort(server, "53")
		}
		s.asker.servers = []string{server}
	}
	return s, nil
}

// Run implements Source. Only NOERROR is an answer, though it may have no record; other results
// describe the name's servers. That includes NXDOMAIN, with which some answer while they start.
func (s *srv) Run(ctx context.Context, set func([]worker.Spec)) error {
	var known []worker.Spec
	told := false
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		records, err := s.asker.ask(ctx, s.fqdn)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			var specs []worker.Spec
			specs, err = s.specs(records)
			unusable := len(specs) == 0 && err != nil
			if !unusable && (!told || !slices.Equal(specs, known)) {
				known, told = specs, true
				set(slices.Clone(specs))
			}
		}
		s.fail(err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// specs returns the workers of usable records, sorted. Priorities and weights do not count: caches
// and load decide the choice.
func (s *srv) specs(records []record) (specs []worker.Spec, bad error) {
	var faults faults
	for _, r := range records {
		host := strings.TrimSuffix(r.target, ".")
		if host == "" || r.port == 0 { // "." says that the service is not there (RFC 2782)
			continue
		}
		spec, err := worker.Spec{URL: s.scheme + "://" + net.JoinHostPort(host, strconv.Itoa(int(r.port))), Role: s.role}.Normal()
		if err != nil {
			faults.add(fmt.Errorf("a record of %s: %w", s.fqdn, err))
			continue
		}
		specs = append(specs, spec)
	}
	return sorted(specs), faults.err()
}

// sorted puts specs in the order of their URLs, each of them once.
func sorted(specs []worker.Spec) []worker.Spec {
	slices.SortStableFunc(specs, func(a, b worker.Spec) int { return strings.Compare(a.URL, b.URL) })
	return slices.CompactFunc(specs, func(a, b worker.Spec) bool { return a.URL == b.URL })
}
