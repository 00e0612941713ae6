package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

const (
	// examinedBatches and examineFor bound the reading of a replay.
	examinedBatches = 1000
	examineFor      = 2 * time.Second
)

var errEnough = errors.New("enough batches were read")

// examineBatches reads the events that a worker keeps for replays. Where a router would set them
// aside, it is unfit; there is no finding of a worker that has published nothing.
func examineBatches(ctx context.Context, name string, endpoints []string) []finding {
	all, unreadable := 0, 0
	for _, endpoint := range endpoints {
		ctx, cancel := context.WithTimeout(ctx, examineFor)
		left := examinedBatches
		// Its early end is no fault of the events.
		_, _ = zmq.Replay(ctx, endpoint, 0, func(m zmq.Message) error {
			var b kvevent.Batch
			if all++; b.Decode(m.Payload) != nil || !b.Readable() {
				unreadable++
			}
			if left--; left == 0 {
				return errEnough
			}
			return nil
		})
		cancel()
	}
	switch {
	case all == 0:
		return nil
	case 3*unreadable >= all:
		return []finding{{
			name, stateUnfit, fmt.Sprintf("%d of %d batches cannot be read or hold unknown kinds of event", unreadable, all),
			"a router sets such events aside; is it SGLang, of a release that this router knows?",
		}}
	}
	return []finding{{name, stateOK, fmt.Sprintf("batches read: %d", all-unreadable), ""}}
}

// examineRouter asks a router which of its ranks need attention.
func examineRouter(url, key string) []finding {
	name := "router " + url
	var status admin.Status
	code, answer, err := askHTTP(url, "/status", key, nil, explainTimeout)
	if err == nil && code != fasthttp.StatusOK {
		err = fmt.Errorf("status %d", code)
	}
	if err == nil {
		err = json.Unmarshal(answer, &status)
	}
	if err != nil {
		return []finding{{name, stateUnfit, err.Error(), "give the URL of its operator API, and --operator-key"}}
	}
	found := []finding{{name, stateOK, fmt.Sprintf("%d ranks", len(status.Workers)), ""}}
	for i := range status.Workers {
		for _, c := range status.Workers[i].Concerns {
			state := stateUnfit
			if c.Severity == admin.Note {
				state = stateOK
			}
			found = append(found, finding{c.Subject, state, c.Text, c.Advice})
		}
	}
	return found
}
