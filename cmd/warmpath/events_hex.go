package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// hexLineLimit is the longest line: the largest message that the transport takes, in hexadecimal.
const hexLineLimit = 128 << 20

// hexLines decodes payloads that stand in hexadecimal, one a line, and goes on after a malformed
// one.
func (p *eventsPrinter) hexLines(ctx context.Context, in io.Reader) error {
	lines := make(chan []byte)
	done := make(chan error, 1)
	// A read from a terminal cannot be interrupted: it is left behind when ctx ends first.
	go func() { done <- readLines(ctx, in, lines) }()
	bad := 0
	for number := 1; ; number++ {
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-lines:
			if !ok {
				if err := <-done; err != nil {
					return fmt.Errorf("cannot read standard input: %w", err)
				}
				if bad > 0 {
					return fmt.Errorf("%d %w", bad, errEventsMalformed)
				}
				return nil
			}
			err := p.hexLine(number, line)
			if errors.Is(err, errEventsEnough) {
				return nil
			}
			if err != nil {
				bad++
				p.warnf("line %d: %v", number, err)
			}
		}
	}
}

func (p *eventsPrinter) hexLine(number int, line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	payload := make([]byte, hex.DecodedLen(len(line)))
	if _, err := hex.Decode(payload, line); err != nil {
		return err
	}
	return p.payload(fmt.Appendf(nil, `"line":%d`, number), payload)
}

// readLines sends copies of in's lines and closes the channel.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	defer close(lines)
	s := bufio.NewScanner(in)
	s.Buffer(nil, hexLineLimit)
	for s.Scan() {
		select {
		case lines <- bytes.Clone(s.Bytes()):
		case <-ctx.Done():
			return nil
		}
	}
	return s.Err()
}
