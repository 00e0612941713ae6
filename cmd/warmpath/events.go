package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// eventsOptions are the command's flags.
type eventsOptions struct {
	replay        string
	replayTimeout time.Duration
	topic         string
	from          uint64
	count         int
}

func newEventsCommand() *cobra.Command {
	var o eventsOptions
	cmd := &cobra.Command{
		Use:   "events ENDPOINT",
		Short: "Print a worker's KV-cache events as JSON lines",
		Long: `Print the KV-cache events that a worker publishes over ZeroMQ, one JSON line per message.

A line holds the sequence number, the topic, the engine's time, its rank and the events with the engine's own field
names. Hashes are signed as in SGLang; byte strings are hexadecimal. All encodings are understood, from SGLang's arrays
(0.5.8) to its maps (0.5.23) and vLLM's; fields of later releases are skipped and counted as unknown_fields or
unknown_events. Messages of SGLang's load socket are printed as load.

With --replay, messages that the worker still keeps come first, from sequence --from on, then live ones without
duplicates; gaps in the live stream are filled the same way. What cannot be had is reported on standard error, as are a
restart of the worker and malformed messages. Without --replay, only messages from now on are seen.`,
		Example: `  warmpath events tcp://127.0.0.1:5557
  warmpath events tcp://127.0.0.1:5557 --replay tcp://127.0.0.1:5558
  warmpath events tcp://127.0.0.1:5557 --replay tcp://127.0.0.1:5558 --from 1200 --count 10
  warmpath events tcp://127.0.0.1:5557 --topic kv-events | jq -c '.events[] | {type, medium}'`,
		Args: func(_ *cobra.Command, args []string) error { return o.check(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.SilenceUsage = true // From here on an error is not one of usage.
			p := &eventsPrinter{out: bufio.NewWriter(cmd.OutOrStdout()), warn: cmd.ErrOrStderr(), left: o.count}
			return errors.Join(p.stream(cmd.Context(), eventsEndpoint(args[0]), &o), p.out.Flush())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.replay, "replay", "", "also ask this `endpoint` for messages sent before")
	f.DurationVar(&o.replayTimeout, "replay-timeout", 10*time.Second, "longest wait for a replay")
	f.StringVar(&o.topic, "topic", "", "only topics that begin with this `prefix`")
	f.Uint64Var(&o.from, "from", 0, "first `sequence` to replay")
	f.IntVar(&o.count, "count", 0, "stop after this `number` of lines (0: never)")
	return cmd
}

// check refuses contradictory flags.
func (o *eventsOptions) check(args []string) error {
	switch {
	case len(args) != 1:
		return errors.New("one endpoint is needed, such as tcp://127.0.0.1:5557")
	case o.from > 0 && o.replay == "":
		return errors.New("--from needs --replay")
	case o.count < 0:
		return errors.New("--count must not be negative")
	}
	o.replay = eventsEndpoint(o.replay)
	return nil
}

// eventsEndpoint lets "host:port" stand for "tcp://host:port".
func eventsEndpoint(s string) string {
	if s == "" || strings.Contains(s, "://") {
		return s
	}
	return "tcp://" + s
}

// errEventsEnough ends a stream that --count cut.
var errEventsEnough = errors.New("enough")

// eventsPrinter writes messages as JSON lines and checks their sequence numbers.
type eventsPrinter struct {
	out  *bufio.Writer
	warn io.Writer
	left int // Lines to print; 0 is no bound.

	batch kvevent.Batch
	load  kvevent.Load
	line  []byte

	next     uint64 // Sequence expected, if started.
	started  bool
	lastLive uint64 // Last sequence of the live stream, if live.
	live     bool
	lastTime float64 // The engine's time of the last batch printed.
}

// stream prints replay and live messages until ctx is done.
func (p *eventsPrinter) stream(ctx context.Context, endpoint string, o *eventsOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages := make(chan zmq.Message, 1024)
	notices := make(chan string, 16)
	notice := func(s string) {
		select {
		case notices <- s:
		case <-ctx.Done():
		}
	}
	said := ""
	sub := zmq.Subscription{
		Endpoint: endpoint, Topic: o.topic,
		OnMessage: func(m zmq.Message) { // When printing is slow, the publisher queues.
			select {
			case messages <- m.Clone():
			case <-ctx.Done():
			}
		},
		OnMalformed: func(frames int) { notice(fmt.Sprintf("malformed message of %d frames dropped", frames)) },
		OnConnect:   func() { said = "" },
		OnDisconnect: func(err error) {
			// Once for each time without a publisher, and once for a peer that is none.
			if s := err.Error(); said == "" || errors.Is(err, zmq.ErrProtocol) && s != said {
				said = s
				notice(s + "; trying again")
			}
		},
	}
	done := make(chan error, 1)
	go func() {
		done <- zmq.Subscribe(ctx, sub)
		cancel() // The subscription is wrong, or this is the end anyway.
	}()
	err := p.follow(ctx, messages, notices, o)
	cancel()
	if wrong := <-done; wrong != nil {
		return wrong
	}
	if errors.Is(err, errEventsEnough) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (p *eventsPrinter) follow(
	ctx context.Context, messages <-chan zmq.Message, notices <-chan string, o *eventsOptions,
) error {
	if o.replay != "" {
		p.next, p.started = o.from, true
		if err := p.fill(ctx, o, 1<<64-1); err != nil {
			return err
		}
	}
	for {
		if len(messages) == 0 {
			if err := p.out.Flush(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case s := <-notices:
			p.warnf("%s", s)
		case m := <-messages:
			for len(notices) > 0 { // they came before it
				p.warnf("%s", <-notices)
			}
			if err := p.message(ctx, m, o); err != nil {
				return err
			}
		}
	}
}

// message prints a live message behind the missing ones before it.
func (p *eventsPrinter) message(ctx context.Context, m zmq.Message, o *eventsOptions) error {
	if p.live && m.Seq <= p.lastLive || p.started && m.Seq < p.next && p.newer(m) {
		p.warnf("sequence went back from %d to %d: the worker was restarted", p.next-1, m.Seq)
		p.next = 0
	}
	p.lastLive, p.live = m.Seq, true
	switch {
	case !p.started:
		p.next, p.started = m.Seq, true
	case m.Seq < p.next:
		return nil // The replay had it.
	case m.Seq > p.next && o.replay != "":
		if err := p.fill(ctx, o, m.Seq); err != nil {
			return err
		}
	}
	if m.Seq < p.next {
		return nil // The replay of the gap had it too.
	}
	return p.print(m)
}

// newer reports whether the engine made m after the last printed message. A low sequence number
// then means a restart of the engine, not a duplicate of a replayed message.
func (p *eventsPrinter) newer(m zmq.Message) bool {
	return p.batch.Decode(m.Payload) == nil && p.batch.Time > p.lastTime
}

// fill replays from the sequence expected up to, and without, end.
func (p *eventsPrinter) fill(ctx context.Context, o *eventsOptions, end uint64) error {
	limited, cancel := context.WithTimeout(ctx, o.replayTimeout)
	defer cancel()
	_, err := zmq.Replay(limited, o.replay, p.next, func(m zmq.Message) error {
		if m.Seq < p.next || m.Seq >= end {
			return nil
		}
		return p.print(m)
	})
	if err == nil || errors.Is(err, errEventsEnough) || ctx.Err() != nil {
		return err
	}
	p.warnf("%v", err) // The live stream may still be good.
	return nil
}

// print writes one message as a line.
func (p *eventsPrinter) print(m zmq.Message) error {
	if m.Seq > p.next {
		p.warnf("gap: sequences %d to %d are missing", p.next, m.Seq-1)
	}
	p.next = m.Seq + 1
	topic, err := json.Marshal(string(m.Topic))
	if err != nil {
		return err
	}
	p.line = fmt.Appendf(p.line[:0], `{"seq":%d,"topic":%s,`, m.Seq, topic)
	if err := p.batch.Decode(m.Payload); err == nil {
		p.lastTime = p.batch.Time
		n := len(p.line)
		p.line = kvevent.AppendJSON(p.line, &p.batch)
		p.line = append(p.line[:n], p.line[n+1:]...) // The batch's own brace.
	} else if p.load.Decode(m.Payload) == nil {
		p.line = appendLoadJSON(p.line, &p.load)
	} else {
		p.warnf("sequence %d: %v", m.Seq, err)
		return nil
	}
	if _, err := p.out.Write(append(p.line, '\n')); err != nil {
		return err
	}
	if p.left == 1 {
		return errEventsEnough
	}
	p.left--
	return nil
}

// appendLoadJSON appends a load report as the rest of a line.
func appendLoadJSON(dst []byte, l *kvevent.Load) []byte {
	return fmt.Appendf(dst, `"rank":%d,"load":{"running":%d,"waiting":%d,"tokens":%d,"max_total":%d,`+
		`"waiting_uncached":%d,"total_tokens":%d,"max_running":%d,"prefill_uncached":%d,"prefill_busy_us":%d}}`,
		l.Rank, l.Running, l.Waiting, l.Tokens, l.MaxTotal,
		l.WaitingUncached, l.TotalTokens, l.MaxRunning, l.PrefillUncached, l.PrefillBusyMicros)
}

func (p *eventsPrinter) warnf(format string, args ...any) {
	_, _ = fmt.Fprintf(p.warn, "warmpath events: "+format+"\n", args...)
}
