package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestSimRunsUntilItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out, in := io.Pipe()
	cmd := newSimCommand()
	cmd.SetArgs([]string{"--workers", "2", "--listen", "127.0.0.1:0", "--dp-size", "2", "--model", "m"})
	cmd.SetOut(in)
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	lines := bufio.NewScanner(out)
	for range 2 {
		if !lines.Scan() {
			t.Fatal("a worker did not say where it is")
		}
		url, events, ok := strings.Cut(lines.Text(), " events tcp://")
		if !ok || events == "" {
			t.Fatalf("line %q has no URL and endpoint", lines.Text())
		}
		status, body, err := fasthttp.Get(nil, url+"/v1/models")
		if err != nil || status != fasthttp.StatusOK || !strings.Contains(string(body), `"id":"m"`) {
			t.Errorf("models: %d %s %v", status, body, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestSimRefusesBadFlags(t *testing.T) {
	for _, args := range []string{
		"--workers 0", "--encoding 1.2.3", "--listen nowhere", "--listen 127.0.0.1:x", "--page-size -1", "--time-scale -1", "extra",
	} {
		cmd := newSimCommand()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(strings.Fields(args))
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("warmpath sim %s ran", args)
		}
	}
}
