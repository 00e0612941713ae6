package load

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

var (
	// ErrConfig is a configuration that cannot be run.
	ErrConfig = errors.New("load: cannot be run so")
	// ErrConnect says that a target cannot be reached.
	ErrConnect = errors.New("load: cannot connect")
)

// API is an endpoint and the form of its prompts.
type API string

// The APIs.
const (
	Chat        API = "chat"        // /v1/chat/completions
	Completions API = "completions" // /v1/completions with text
	Text        API = "text"        // /generate with text
	IDs         API = "ids"         // /generate with input_ids
)

// APIs lists them.
func APIs() []API { return []API{Chat, Completions, Text, IDs} }

// ParseAPI returns the API of that name.
func ParseAPI(s string) (API, error) {
	for _, a := range APIs() {
		if string(a) == s {
			return a, nil
		}
	}
	return "", fmt.Errorf("cannot use API %q: %w: want one of %v", s, ErrConfig, APIs())
}

func (a API) path() string {
	switch a {
	case Chat:
		return "/v1/chat/completions"
	case Completions:
		return "/v1/completions"
	default:
		return "/generate"
	}
}

// Config describes a load.
type Config struct {
	Targets []string // host:port; connections take turns
	API     API
	Model   string // in OpenAI's requests
	Size    int    // bytes of a body; of a conversation's longest
	Tokens  int    // of an answer, and the events of a stream
	Stream  bool
	// Turns above 0 has conversations grow so many times before others take their places; else no
	// two prompts share a beginning.
	Turns int
	// Conversations is how many go on at a time, 256 when not given.
	Conversations int
	Seed          uint64

	Connections int     // at most, for an open loop
	Rate        float64 // requests a second; 0 is a closed loop
	Even        bool    // an open loop's requests come at even distances, not by chance
	Warm, Time  time.Duration
	Timeout     time.Duration // of a request; 30 s when not given

	Hooks
}

// Hooks are functions that a run calls. Nil ones are left out.
type Hooks struct {
	// Begin and End are called when the measured time begins and ends, by the loop; they must be
	// fast.
	Begin, End func()
}

// minSize is room for the JSON around a prompt and for a prompt that is unlike others.
const minSize = 250

// normal checks c and sets defaults.
func (c *Config) normal() error {
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Conversations == 0 {
		c.Conversations = 256
	}
	if c.Model == "" {
		c.Model = "mock"
	}
	if c.Begin == nil {
		c.Begin = func() {}
	}
	if c.End == nil {
		c.End = func() {}
	}
	_, err := ParseAPI(string(c.API))
	switch {
	case err != nil:
		return err
	case len(c.Targets) == 0:
		return fmt.Errorf("cannot send anything: no target: %w", ErrConfig)
	case c.Size < minSize || c.Size > 1<<30:
		return fmt.Errorf("cannot send bodies of %d bytes: %w: want %d to 1 GiB", c.Size, ErrConfig, minSize)
	case c.Tokens < 1 || c.Connections < 1 || c.Rate < 0 || c.Turns < 0:
		return fmt.Errorf("cannot send: %w: tokens and connections are at least 1, rate and turns not negative", ErrConfig)
	case c.Time <= 0 || c.Warm < 0 || c.Timeout < 0:
		return fmt.Errorf("cannot send for %v after %v: %w", c.Time, c.Warm, ErrConfig)
	case c.Turns > 0 && c.Size < 8*minSize:
		return fmt.Errorf("cannot grow a conversation to %d bytes: %w: want at least %d", c.Size, ErrConfig, 8*minSize)
	}
	return nil
}

// resolve finds the targets' addresses.
func (c *Config) resolve() (at []*net.TCPAddr, err error) {
	for _, t := range c.Targets {
		a, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(strings.TrimSuffix(t, "/"), "http://"))
		if err != nil {
			return nil, fmt.Errorf("cannot use target %q: %w: %w", t, ErrConfig, err)
		}
		at = append(at, a)
	}
	return at, nil
}
