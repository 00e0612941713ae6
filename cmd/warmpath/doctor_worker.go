package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/secrets"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

const eventsAdvice = `without them only the approximate policy can route to it; start SGLang with --kv-events-config ` +
	`'{"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5558"}'`

var errNotZMQ = errors.New("answers, but does not speak ZMQ")

// arrival hears from the registry that a worker is ready.
type arrival chan *worker.Info

// Up keeps the first word of the worker.
func (a arrival) Up(_ *worker.Worker, info *worker.Info) {
	select {
	case a <- info:
	default:
	}
}

// Down has nothing to undo.
func (arrival) Down(*worker.Worker) {}

// examineWorker looks at a worker with the router's own registry, so that doctor and router cannot
// disagree.
func examineWorker(ctx context.Context, url string, files tlsconfig.ClientFiles, keyFile string, wait time.Duration) []finding {
	log := slog.New(slog.DiscardHandler)
	settings, err := tlsconfig.NewClient(files, log)
	if err != nil {
		return []finding{{url, stateUnfit, err.Error(), "give the files with which the router shall run"}}
	}
	var keys *worker.Keys
	if keyFile != "" {
		if keys, err = worker.ReadKeys(keyFile, log); err != nil {
			return []finding{{url, stateUnfit, err.Error(), "give the file with which the router shall run"}}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	arrived := make(arrival, 1)
	registry := worker.NewRegistry(worker.Config{Log: log, TLS: settings.Config, Key: keys.Of}, arrived)
	w, err := registry.Add(url)
	if err != nil {
		return []finding{{secrets.MaskURL(url), stateUnfit, err.Error(), "give its URL as http://host:port"}}
	}
	defer func() { _ = registry.Remove(w.URL) }()
	select {
	case info := <-arrived:
		found := []finding{describe(url, info)}
		if info.Engine != "" { // advice for SGLang would lead nowhere
			return found
		}
		switch info.Role() {
		case worker.RoleDecode:
			if !info.DecodeCache { // it keeps nothing that events could tell of
				return found
			}
		case worker.RolePrefill:
			found = append(found, examineBootstrap(ctx, url, w))
		case worker.RoleRegular:
		}
		return append(found, examineEvents(ctx, url, info)...)
	case <-ctx.Done():
		reason := w.LastError()
		if reason == "" {
			reason = "no answer in " + wait.String()
		}
		return []finding{{url, stateUnfit, w.State().String() + ": " + reason, "is it running, at this address, and ready? curl " + url + "/ready"}}
	}
}

// describe names the model, version and page size of a ready worker.
func describe(url string, info *worker.Info) finding {
	if info.Refused != 0 {
		return finding{url, stateUnfit, "ready, and it is " + info.Engine, "without it " + info.Consequence()}
	}
	if info.Engine != "" {
		return finding{url, stateMissing, fmt.Sprintf("ready, %s, and no SGLang: it is %s", orUnknown(info.Model()), info.Engine), info.Consequence()}
	}
	return finding{url, stateOK, fmt.Sprintf("ready, %s, %s, SGLang %s, %s a page, %s",
		info.Role(), orUnknown(info.Model()), orUnknown(info.Version), admin.Plural(info.PageSize, "token"), admin.Plural(info.DPSize, "DP rank")), ""}
}

// examineBootstrap waits until decode workers could meet a prefill worker.
func examineBootstrap(ctx context.Context, url string, w *worker.Worker) finding {
	name, at := url+" bootstrap", w.Bootstrap().Addr()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for w.State() != worker.Ready {
		select {
		case <-ctx.Done():
			return finding{
				name, stateUnfit, w.LastError(),
				"decode workers meet it there: open the port, or name the place with --prefill " + url + ",HOST:PORT",
			}
		case <-tick.C:
		}
	}
	return finding{name, stateOK, at, ""}
}

// examineEvents connects to every endpoint that the worker names.
func examineEvents(ctx context.Context, url string, info *worker.Info) []finding {
	if info.Events == nil {
		return []finding{{url + " events", stateMissing, "the worker publishes no KV events", eventsAdvice}}
	}
	found := []finding{examineEndpoints(ctx, url+" events", info.Events.Endpoints)}
	if len(info.Events.Replays) == 0 {
		return append(found, finding{
			url + " replay", stateMissing, "the worker has no replay endpoint",
			`a gap in its events drops what is known of its cache; add "replay_endpoint" to --kv-events-config`,
		})
	}
	found = append(found, examineEndpoints(ctx, url+" replay", info.Events.Replays))
	return append(found, examineBatches(ctx, url+" batches", info.Events.Replays)...)
}

// examineEndpoints is unfit when any endpoint is: a router would believe its index to be exact, and
// it would be empty.
func examineEndpoints(ctx context.Context, name string, endpoints []string) finding {
	for _, endpoint := range endpoints {
		if err := greet(ctx, endpoint); err != nil {
			return finding{
				name, stateUnfit, endpoint + ": " + err.Error(),
				`the worker names this address in /server_info; with a host in "endpoint", add "bind": true, and open the port`,
			}
		}
	}
	return finding{name, stateOK, strings.Join(endpoints, " "), ""}
}

// greet connects and reads the ten bytes with which every ZMTP peer greets: ff, eight of padding,
// 7f (ZMTP 3.0, rfc 23).
func greet(ctx context.Context, endpoint string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(endpoint, "tcp://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetReadDeadline(deadline); err != nil {
			return err
		}
	}
	var greeting [10]byte
	if _, err := io.ReadFull(conn, greeting[:]); err != nil || greeting[0] != 0xff || greeting[9] != 0x7f {
		return errNotZMQ
	}
	return nil
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
