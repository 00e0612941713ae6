package sim

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// loadTopic is SGLang's topic of load messages, which cannot be configured.
const loadTopic = "load"

// sockets are the ZMQ sockets of one rank; nil where it has none.
type sockets struct {
	events, loads *zmq.Publisher
}

// publisher returns p, or a nil interface.
func (s *sockets) publisher(p *zmq.Publisher) publisher {
	if p == nil {
		return nil
	}
	return p
}

func (s *sockets) all() (ps []*zmq.Publisher) {
	for _, p := range []*zmq.Publisher{s.events, s.loads} {
		if p != nil {
			ps = append(ps, p)
		}
	}
	return ps
}

// run serves the sockets until the process ends.
func (s *sockets) run(w *process) {
	for _, p := range s.all() {
		w.wg.Go(func() {
			if err := p.Run(w.ctx); err != nil && w.ctx.Err() == nil {
				w.cfg.Log.Error("zmq publisher ended", "endpoint", p.Endpoint(), "error", err)
			}
		})
	}
}

// close closes sockets that never ran; the others end with their process.
func (s *sockets) close() {
	for _, p := range s.all() {
		_ = p.Close()
	}
}

// portAttempts bounds the search for consecutive free ports, one for each rank.
const portAttempts = 64

// openSockets binds the sockets of all ranks and writes rank 0's endpoints into cfg. Where rank
// 0's ports are any, the next ones may be taken; then others are tried.
func openSockets(cfg *Config) (all []*sockets, err error) {
	if cfg.Events == off {
		for range cfg.DPSize {
			all = append(all, &sockets{})
		}
		return all, nil
	}
	for range portAttempts {
		if all, err = openOnce(*cfg); err == nil || fixed(cfg.Events) && fixed(cfg.Replay) && fixed(cfg.Load) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	cfg.Events = all[0].events.Endpoint()
	if cfg.Replay != off {
		cfg.Replay = all[0].events.ReplayEndpoint()
	}
	if cfg.Load != off {
		cfg.Load = all[0].loads.Endpoint()
	}
	return all, nil
}

// openOnce binds each rank's sockets at ports that follow rank 0's.
func openOnce(cfg Config) (all []*sockets, err error) {
	cfg.Events, cfg.Replay, cfg.Load = withPort(cfg.Events), withPort(cfg.Replay), withPort(cfg.Load)
	for i := range cfg.DPSize {
		s, err := openRank(&cfg, i)
		if err != nil {
			for _, s := range all {
				s.close()
			}
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// openRank binds the sockets of rank i; cfg has rank 0's endpoints.
func openRank(cfg *Config, i int) (*sockets, error) {
	pc := zmq.PublisherConfig{
		Topic: cfg.Topic, BufferSteps: cfg.BufferSteps,
		ReplayWithoutTopic: cfg.Encoding <= kvevent.SGLang0515, IgnoreReplay: cfg.silent,
	}
	var err error
	if pc.Endpoint, err = shift(cfg.Events, i); err != nil {
		return nil, err
	}
	if cfg.Replay != off {
		if pc.ReplayEndpoint, err = shift(cfg.Replay, i); err != nil {
			return nil, err
		}
	}
	s := &sockets{}
	if s.events, err = zmq.NewPublisher(pc); err != nil {
		return nil, err
	}
	if cfg.Load == off {
		return s, nil
	}
	at, err := shift(cfg.Load, i)
	if err == nil {
		s.loads, err = zmq.NewPublisher(zmq.PublisherConfig{Topic: loadTopic, Endpoint: at})
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// fixed reports whether endpoint names its port.
func fixed(endpoint string) bool {
	return endpoint == off || !strings.HasSuffix(endpoint, ":*") && !strings.HasSuffix(endpoint, ":0")
}

// shift returns endpoint with its port raised by n.
func shift(endpoint string, n int) (string, error) {
	host, port, err := splitEndpoint(endpoint)
	if err != nil {
		return "", err
	}
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(port+n)), nil
}

// splitEndpoint splits "tcp://host:port".
func splitEndpoint(endpoint string) (host string, port int, err error) {
	addr, ok := strings.CutPrefix(endpoint, "tcp://")
	if ok {
		var p string
		host, p, err = net.SplitHostPort(addr)
		if err == nil {
			port, err = strconv.Atoi(p)
		}
	}
	if !ok || err != nil {
		return "", 0, fmt.Errorf("cannot use ZMQ endpoint %q: %w", endpoint, errors.Join(ErrConfig, err))
	}
	return host, port, nil
}
