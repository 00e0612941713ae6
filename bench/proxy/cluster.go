package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/bench/proxy/load"
	"github.com/warmpath/warmpath/dataplane/freeport"
)

// ClusterConfig describes the processes to start.
type ClusterConfig struct {
	Warmpath string   // program of the router
	Bench    string   // program of the mock workers, package bench/cmd
	Workers  int      // mock workers, in one process
	Mock     []string // further arguments of `proxy mock`
	Serve    []string // further arguments of `warmpath serve`
	// Pin gives the router a core of its own, and the rest to workers and load, which includes this
	// process.
	Pin bool
	Log io.Writer // of the router and the workers
}

// Cluster is mock workers and a router, each a process.
type Cluster struct {
	Workers []string // host:port
	Router  string   // host:port
	PID     int      // of the router
	mock    *process
	router  *process
	release func() // the router's port; nil: there is none
}

// process is a child that somebody waits for.
type process struct {
	*exec.Cmd
	ended chan struct{} // closed then
}

// begin starts a command on these cores.
func begin(c *exec.Cmd, cores []int) (*process, error) {
	if err := startOn(c, cores); err != nil {
		return nil, err
	}
	p := &process{Cmd: c, ended: make(chan struct{})}
	go func() {
		_ = c.Wait() // how it ended says nothing that the measurement does not
		close(p.ended)
	}()
	return p, nil
}

// end asks a process to end, and then has it end.
func (p *process) end() {
	_ = p.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(endTime, func() { _ = p.Process.Kill() })
	defer kill.Stop()
	<-p.ended
}

// Listening is the first line of output of `proxy mock`.
type Listening struct {
	Workers []string `json:"workers"` // host:port
}

// startTime is how long each process may take to answer; it takes 0.1 s.
const startTime = 30 * time.Second

// Start starts a cluster and returns when it answers.
func Start(ctx context.Context, cfg ClusterConfig) (*Cluster, error) {
	var forRouter, forLoad []int
	if all := cpus(); cfg.Pin && len(all) > 1 {
		forRouter, forLoad = all[:1], all[1:]
		if err := moveTo(forLoad); err != nil {
			return nil, err
		}
	}
	c := &Cluster{}
	if err := c.startMock(&cfg, forLoad); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.startRouter(ctx, &cfg, forRouter); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) startMock(cfg *ClusterConfig, cores []int) error {
	args := append([]string{"proxy", "mock", "--listen", "127.0.0.1:0", "--workers", strconv.Itoa(cfg.Workers)}, cfg.Mock...)
	cmd := exec.Command(cfg.Bench, args...)
	cmd.Stderr = cfg.Log
	out, in, err := os.Pipe() // not the command's own: Wait would close it while it is read
	if err != nil {
		return fmt.Errorf("cannot start workers: %w", err)
	}
	defer out.Close()
	cmd.Stdout = in
	c.mock, err = begin(cmd, cores)
	_ = in.Close() // the child has its own
	if err != nil {
		return fmt.Errorf("cannot start workers: %w", err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n') // ends with the process
	var l Listening
	if err == nil {
		err = json.Unmarshal(line, &l)
	}
	if err != nil {
		return fmt.Errorf("cannot start workers: %w: see their log", err)
	}
	c.Workers = l.Workers
	return nil
}

func (c *Cluster) startRouter(ctx context.Context, cfg *ClusterConfig, cores []int) error {
	addr, release, err := freeport.Hold()
	if err != nil {
		return fmt.Errorf("cannot start the router: %w", err)
	}
	c.release = release
	args := []string{"serve", "--listen", addr, "--log-level", "warn"}
	for _, w := range c.Workers {
		args = append(args, "--worker", "http://"+w)
	}
	cmd := exec.Command(cfg.Warmpath, append(args, cfg.Serve...)...)
	cmd.Stdout, cmd.Stderr = cfg.Log, cfg.Log
	if c.router, err = begin(cmd, cores); err != nil {
		return fmt.Errorf("cannot start the router: %w", err)
	}
	c.Router, c.PID = addr, cmd.Process.Pid
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	router := c.router // Close may come before the goroutine has seen the end of ctx
	go func() {
		select {
		case <-router.ended:
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	return Await(ctx, addr)
}

// errEnded is a router that does not start.
var errEnded = errors.New("the router ended: see its log")

// Await returns when a router at addr answers a prompt.
func Await(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := load.Probe(ctx, addr, load.Chat)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("cannot get an answer from the router at %s: %w: %w", addr, context.Cause(ctx), err)
		}
	}
}

// endTime is how long a process may take to end before it is killed.
const endTime = 10 * time.Second

// Close ends the router and then the workers.
func (c *Cluster) Close() error {
	for _, p := range []*process{c.router, c.mock} {
		if p != nil {
			p.end()
		}
	}
	if c.release != nil {
		c.release()
	}
	c.router, c.mock = nil, nil
	return nil
}
