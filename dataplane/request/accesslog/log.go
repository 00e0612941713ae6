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
	// maxPending bounds the entries that are not written yet: those of one second of 1,000
	// requests/s while the disk does not answer.
	maxPending = 1024
	// maxKeptIDs bounds the memory that an entry keeps for its next user: 64 KiB, a prompt of
	// 131,072 tokens in blocks of 16. All entries keep at most 64 MiB, and only after the disk has
	// stood still.
	maxKeptIDs = 8192
	// flushEvery bounds the time of a line in memory, for readers that follow the file (tail -f).
	flushEvery = time.Second
	bufferSize = 256 << 10
	// mode keeps other users from the clients' times and volumes.
	mode = 0o600
)

// Log is an access log. Requests fill in entries, and Run writes them.
type Log struct {
	path    string
	free    chan *Entry
	full    chan *Entry
	reopen  chan struct{}
	dropped atomic.Uint64
	written atomic.Uint64
	failed  func(error)

	file  io.WriteCloser
	since uint64 // lines since the last flush that succeeded: they may be lost with the buffer
	out   *bufio.Writer
	line  []byte
}

// Open opens the file at path, to which lines are appended. Run calls failed with errors of
// writing; the lines are dropped and counted.
func Open(path string, failed func(error)) (*Log, error) {
	l := &Log{
		path: path, failed: failed, free: make(chan *Entry, maxPending),
		full: make(chan *Entry, maxPending), reopen: make(chan struct{}, 1),
		out: bufio.NewWriterSize(nil, bufferSize),
	}
	for range maxPending {
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

// Begin returns an entry to fill in, for Commit. It is zero but for the memory of its slices; nil
// where so many entries wait to be written that this one is dropped.
func (l *Log) Begin() *Entry {
	select {
	case e := <-l.free:
		*e = Entry{Name: e.Name[:0], Path: e.Path[:0], IDs: e.IDs[:0]}
		return e
	default:
		l.dropped.Add(1)
		return nil
	}
}

// Commit hands an entry of Begin to Run.
func (l *Log) Commit(e *Entry) { l.full <- e } // has room for all entries

// Reopen has Run open the file again, after a log rotation has moved it away.
func (l *Log) Reopen() {
	select {
	case l.reopen <- struct{}{}:
	default: // requested already
	}
}

// Dropped returns the number of requests without a line: the disk was too slow, or failed.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Written returns the number of written lines.
func (l *Log) Written() uint64 { return l.written.Load() }

// Run writes until ctx ends. Then it writes the entries that are committed, and closes the file.
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
	if cap(e.IDs) > maxKeptIDs {
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

// lose drops the buffer, so that lines are written again once the disk has room.
func (l *Log) lose(err error) {
	l.dropped.Add(l.since)
	l.since = 0
	l.out.Reset(l.file)
	l.failed(fmt.Errorf("cannot write the access log: %w", err))
}

// renew opens the file under its name again; where that fails, the old file stays open.
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
