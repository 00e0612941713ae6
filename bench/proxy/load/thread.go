package load

import (
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/warmpath/warmpath/bench/proxy/loop"
	"github.com/warmpath/warmpath/bench/proxy/mock"
)

// thread is a loop with all connections.
type thread struct {
	cfg    *Config
	loop   *loop.Loop
	writer *writer
	talks  *talks // nil: prompts are unique
	want   []byte // part of each answer's text

	connections

	begin, end int64 // of the measured time
	arrivals   arrivals
	tick       loop.Timer
	alarm      loop.Timer
	idle       []*client // open loop; the last one used first
	waiting    []int64   // due times for which there was no connection
	busy       int       // requests under way
	over       bool      // no new requests; due ones are still sent
	result     Result
}

// connections are those to the targets.
type connections struct {
	clients []*client
	at      []*net.TCPAddr
	max     int
	toStand int   // number that must be open before the start
	failed  error // to connect
}

// early is how many connections an open loop has from the start; more are made as they are needed.
const early = 64

func newThread(cfg *Config, at []*net.TCPAddr) (*thread, error) {
	l, err := loop.New(time.Now())
	if err != nil {
		return nil, err
	}
	t := &thread{cfg: cfg, loop: l, writer: newWriter(cfg), connections: connections{at: at}}
	t.want = mock.AppendWords(nil, cfg.Tokens)
	if cfg.Turns > 0 {
		t.talks = newTalks(t.writer)
	}
	t.max, t.toStand = cfg.Connections, cfg.Connections
	if cfg.Rate > 0 {
		t.toStand = min(t.max, early)
	}
	t.result.Errors = map[string]uint64{}
	for i := range t.toStand {
		if err := t.client(i).dial(); err != nil {
			return nil, err
		}
	}
	t.alarm.F = func() { t.giveUpConnecting(errTimeout) }
	t.loop.Arm(&t.alarm, int64(connectTime))
	return t, nil
}

// client adds a client, without a connection.
func (t *thread) client(n int) *client {
	at := t.at[n%len(t.at)]
	k := &client{t: t, at: at, host: at.String()}
	t.clients = append(t.clients, k)
	return k
}

// connected counts connections that stand, and begins to send when all do.
func (t *thread) connected(err error) {
	switch {
	case t.toStand == 0:
	case err != nil:
		t.giveUpConnecting(err)
	default:
		if t.toStand--; t.toStand == 0 {
			t.start()
		}
	}
}

func (t *thread) giveUpConnecting(err error) {
	t.toStand, t.failed = 0, fmt.Errorf("%w: %w", ErrConnect, err)
	t.loop.Stop()
}

// start begins to send.
func (t *thread) start() {
	now := t.loop.Now()
	t.begin = now + int64(t.cfg.Warm)
	t.end = t.begin + int64(t.cfg.Time)
	t.loop.Arm(&loop.Timer{F: t.cfg.Begin}, t.begin)
	t.loop.Arm(&loop.Timer{F: t.cfg.End}, t.end)
	t.alarm.F = t.watch
	t.loop.Arm(&t.alarm, now+int64(watchEvery))
	if t.cfg.Rate == 0 {
		t.startClosed()
		return
	}
	t.idle = append(t.idle, t.clients...)
	var random *rand.Rand
	if !t.cfg.Even {
		random = t.writer.random
	}
	t.arrivals = newArrivals(now, t.cfg.Rate, random)
	t.tick.F = t.arrive
	t.loop.Arm(&t.tick, t.arrivals.due())
}

// startClosed has all clients send.
func (t *thread) startClosed() {
	for _, k := range t.clients {
		t.next(k)
	}
}

func (t *thread) later(k *client, at int64) { t.loop.Arm(&loop.Timer{F: func() { t.next(k) }}, at) }

// arrive sends the due requests of an open loop.
func (t *thread) arrive() {
	now := t.loop.Now()
	for ; t.arrivals.due() <= now; t.arrivals.step() {
		if t.arrivals.due() >= t.end {
			t.finish()
			return
		}
		t.send(t.arrivals.due())
	}
	t.loop.Arm(&t.tick, t.arrivals.due())
}

// send takes an idle connection, or a new one, or has the request wait for one.
func (t *thread) send(due int64) {
	if n := len(t.idle); n > 0 {
		k := t.idle[n-1]
		t.idle = t.idle[:n-1]
		t.write(k, due)
		return
	}
	if len(t.clients) < t.max {
		t.write(t.client(len(t.clients)), due)
		return
	}
	t.waiting = append(t.waiting, due)
}

func (t *thread) write(k *client, due int64) {
	t.busy++
	k.write(due)
}

// next gives k, which is idle, something to do.
func (t *thread) next(k *client) {
	switch {
	case len(t.waiting) > 0:
		due := t.waiting[0]
		t.waiting = t.waiting[1:]
		t.write(k, due)
	case t.over:
		t.settle()
	case t.cfg.Rate > 0:
		t.idle = append(t.idle, k)
	default:
		if now := t.loop.Now(); now < t.end {
			t.write(k, now)
			return
		}
		t.finish()
	}
}

// finish stops new requests; due ones are still sent.
func (t *thread) finish() {
	t.over = true
	t.settle()
}

// settle ends the loop when all is answered.
func (t *thread) settle() {
	if t.busy == 0 && len(t.waiting) == 0 {
		t.loop.Stop()
	}
}

// counts says whether a request that was due and has ended belongs to the result: of a closed loop
// those that ended in the measured time, of an open loop those that were due in it.
func (t *thread) counts(due, ended int64) bool {
	at := ended
	if t.cfg.Rate > 0 {
		at = due
	}
	return t.begin <= at && at < t.end
}

// done counts a good answer, and goes on.
func (t *thread) done(k *client) {
	t.busy--
	now := t.loop.Now()
	if t.begin <= now && now < t.end {
		t.result.Answered++
	}
	if t.counts(k.due, now) {
		t.result.OK++
		t.result.latency.Add(now-k.due, 1)
		t.result.service.Add(now-k.sent, 1)
		t.result.first.Add(k.first-k.due, 1)
		t.result.late.Add(k.sent-k.due, 1)
		t.result.Bytes += uint64(k.r.bytes)
	}
	t.next(k)
}

// retryAfter keeps a target that refuses from being asked in a circle.
const retryAfter = 10 * time.Millisecond

// fail counts a request that failed, and goes on.
func (t *thread) fail(k *client, err error) {
	t.busy--
	now := t.loop.Now()
	if t.begin <= now && now < t.end {
		t.result.Failed++
	}
	if t.counts(k.due, now) {
		t.result.Errors[err.Error()]++
	}
	if t.cfg.Rate == 0 && !t.over {
		t.later(k, now+int64(retryAfter))
		return
	}
	t.next(k)
}

// gap counts the time between two events of a stream.
func (t *thread) gap(d int64) {
	if now := t.loop.Now(); t.begin <= now && now < t.end {
		t.result.gaps.Add(d, 1)
	}
}

// watchEvery is how exact time-outs are.
const watchEvery = 250 * time.Millisecond

// watch ends requests that take too long.
func (t *thread) watch() {
	now := t.loop.Now()
	for _, k := range t.clients {
		if k.busy && now-k.sent > int64(t.cfg.Timeout) {
			k.drop()
			k.failed(errTimeout)
		}
	}
	if now >= t.end && t.cfg.Rate == 0 {
		t.over = true
	}
	if now > t.end+int64(min(t.cfg.Timeout, grace)) {
		t.giveUp(now)
		return
	}
	t.loop.Arm(&t.alarm, now+int64(watchEvery))
	if t.over {
		t.settle()
	}
}

// grace is how long answers may come after the end.
const grace = 10 * time.Second

// giveUp counts due requests without an answer.
func (t *thread) giveUp(now int64) {
	due := t.waiting
	for _, k := range t.clients {
		if k.busy {
			due = append(due, k.due)
		}
	}
	for _, at := range due {
		if t.cfg.Rate == 0 || t.counts(at, now) {
			t.result.Errors[errLate.Error()]++
		}
	}
	t.loop.Stop()
}
