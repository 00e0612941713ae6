package ingest

import (
	"errors"
	"log/slog"
	"time"
)

// A replay is work for the engine and for this process. A rank whose numbers mean nothing would be asked for one with each of its messages:
// beyond so many, it is followed without its history, which is learnt when there is time.
const (
	replaysAtOnce = 64
	replayEvery   = 250 * time.Millisecond
)

// errOften is a replay that was not asked for.
var errOften = errors.New("ingest: too many replays in a short time")

// allowance counts replays: one more each replayEvery, replaysAtOnce at most. The zero value has all of them.
type allowance struct {
	until time.Time // when all will be there again
}

// take reports whether there was one.
func (a *allowance) take(now time.Time) bool {
	if a.until.Before(now) {
		a.until = now
	}
	next := a.until.Add(replayEvery)
	if next.Sub(now) > replaysAtOnce*replayEvery {
		return false
	}
	a.until = next
	return true
}

// severity is that of a replay's failure: what happens all the time has been said often enough.
func severity(err error) slog.Level {
	if errors.Is(err, errOften) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}
