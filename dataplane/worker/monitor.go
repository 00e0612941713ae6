package worker

import (
	"context"
	"time"
)

// monitor watches one worker. Its run goroutine is the only one that probes,
// changes the probed state and calls the observer.
type monitor struct {
	r      *Registry
	w      *Worker
	probe  *prober
	cancel context.CancelFunc
	done   chan struct{}

	known    bool      // the observer was told Up and not yet Down
	failing  time.Time // first of the unanswered probes in a row
	gaveUp   bool      // requests were already sent elsewhere in this hang
	reported error     // last discovery error that was logged
}

func (m *monitor) run(ctx context.Context) {
	defer close(m.done)
	defer m.probe.client.CloseIdleConnections()
	defer m.down()
	tick := time.NewTicker(m.r.cfg.Interval)
	defer tick.Stop()
	for {
		m.step(m.probe.ready())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-m.w.kick:
		}
	}
}

// step takes in one probe's result.
func (m *monitor) step(err error) {
	state := classify(err)
	m.w.setError(err)
	if state == Ready && !m.known && !m.discover() {
		state = Probing
	}
	switch state {
	case Ready:
		m.failing, m.gaveUp = time.Time{}, false
	case Slow:
		m.slow()
	case Dead:
		m.down()
		m.w.giveUp()
	case Probing, Draining:
	}
	if m.w.setState(state) {
		m.r.cfg.Log.Info("worker changed state", "worker", m.w.URL, "state", state.String(), "error", m.w.LastError())
	}
}

// discover reads the worker's description and tells the observer. Without a
// description there is nothing to route by, so the worker is not ready yet.
func (m *monitor) discover() bool {
	info, err := m.probe.discover()
	if err != nil {
		m.w.setError(err)
		if m.reported == nil {
			m.r.cfg.Log.Warn("worker is ready but does not describe itself", "worker", m.w.URL, "error", err)
		}
		m.reported = err
		return false
	}
	m.reported = nil
	m.w.info.Store(info)
	if len(m.w.Ranks()) != info.DPSize {
		ranks := newRanks(m.w, info.DPSize)
		m.w.ranks.Store(&ranks)
	}
	m.r.publish()
	m.known = true
	if m.r.observer != nil {
		m.r.observer.Up(m.w, info)
	}
	return true
}

// slow counts how long the worker has not answered.
func (m *monitor) slow() {
	now := time.Now()
	if m.failing.IsZero() {
		m.failing = now
	}
	if !m.gaveUp && now.Sub(m.failing) >= m.r.cfg.HangAfter {
		m.gaveUp = true
		m.r.cfg.Log.Warn("worker hangs; its waiting requests go elsewhere", "worker", m.w.URL)
		m.w.giveUp()
	}
}

// down tells the observer that the worker's cache is gone.
func (m *monitor) down() {
	if !m.known {
		return
	}
	m.known = false
	if m.r.observer != nil {
		m.r.observer.Down(m.w)
	}
}
