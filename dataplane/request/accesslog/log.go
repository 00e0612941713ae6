package accesslog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

const (
	// pending bounds the entries that are not written yet: a second of 1,000 requests/s that a disk does not answer.
	pending = 1024
	// keptIDs bounds the memory that an entry keeps for its next user: 64 KiB, prompts of 131,072 tokens in blocks of 16; so at most
	// 64 MiB in all, and that only while the disk stands still.
	keptIDs = 8192
	// flushEvery is how long a line may lie in memory. Who reads along (tail -f) waits no longer.
	flushEvery = time.Second
	bufferSize = 256 << 10
	// mode: an access log tells who asked when and how much.
	mode = 0o600
)

// Log is an access log. Entries are made by those who serve requests and written by Run.
type Log struct {
	path    string
	free    chan *Entry
	full    chan *Entry
	reopen  chan struct{}
	dropped atomic.Uint64
	written atomic.Uint64
	failed  func(error)

	file  io.WriteCloser
	since uint64 // lines since the last flush that succeeded: those that may be lost with the buffer
	out   *bufio.Writer
	line  []byte
}

// Open opens the file at path, to which lines are appended. failed hears of what cannot be written, from Run; the lines are lost
// and counted.
func Open(path string, failed func(error)) (*Log, error) {
	l := &Log{
		path: path, failed: failed, free: make(chan *Entry, pending), full: make(chan *Entry, pending), reopen: make(chan struct{}, 1),
		out: bufio.NewWriterSize(nil, bufferSize),
	}
	for range pending {
		l.free <- new(Entry)
	}
	return l, l.open()
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, mode)
	if err != nil {
		return fmt.Errorf("cannot open the access log: %w", err)
	}
	l.file = f
	l.out.Reset(f)
	return nil
}

// Begin returns an entry to fill in, zero but for the memory of its IDs, for Commit; nil where so many wait to be written that this one
// is dropped.
func (l *Log) Begin() *Entry {
	select {
	case e := <-l.free:
		*e = Entry{IDs: e.IDs[:0]}
		return e
	default:
		l.dropped.Add(1)
		return nil
	}
}

// Commit gives an entry of Begin to be written.
func (l *Log) Commit(e *Entry) { l.full <- e } // has room for all entries that there are

// Reopen makes Run open the file anew, after somebody has moved it away.
func (l *Log) Reopen() {
	select {
	case l.reopen <- struct{}{}:
	default: // is asked for already
	}
}

// Dropped returns how many requests have no line: more than could be written, or the disk failed.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Written returns how many lines were written.
func (l *Log) Written() uint64 { return l.written.Load() }

// Run writes until ctx ends, then what was committed by then, and closes the file.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case e := <-l.full:
			l.write(e)
		case <-tick.C:
			l.flush()
		case <-l.reopen:
			l.renew()
		case <-ctx.Done():
			return l.finish()
		}
	}
}

func (l *Log) finish() error {
	for {
		select {
		case e := <-l.full:
			l.write(e)
		default:
			if err := errors.Join(l.out.Flush(), l.file.Close()); err != nil {
				return fmt.Errorf("cannot finish the access log: %w", err)
			}
			return nil
		}
	}
}

func (l *Log) write(e *Entry) {
	l.line = e.appendTo(l.line[:0])
	if cap(e.IDs) > keptIDs {
		e.IDs = nil
	}
	l.free <- e
	l.since++
	if _, err := l.out.Write(l.line); err != nil {
		l.lose(err)
		return
	}
	l.written.Add(1)
}

func (l *Log) flush() {
	if err := l.out.Flush(); err != nil {
		l.lose(err)
	}
	l.since = 0
}

// lose drops what is in the buffer, so that a disk that has room again is written to again.
func (l *Log) lose(err error) {
	l.dropped.Add(l.since)
	l.since = 0
	l.out.Reset(l.file)
	l.failed(fmt.Errorf("cannot write the access log: %w", err))
}

// renew opens the file under its name anew; where that fails, the old one goes on.
func (l *Log) renew() {
	l.flush()
	old := l.file
	if err := l.open(); err != nil {
		l.failed(err)
		return
	}
	if err := old.Close(); err != nil {
		l.failed(fmt.Errorf("cannot close the old access log: %w", err))
	}
}
