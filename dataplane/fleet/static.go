package fleet

import (
	"fmt"
	"log/slog"

	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/secrets"
)

// SourceConfig lists the workers and sources of a configuration.
type SourceConfig struct {
	Workers  []string // URLs, of any role
	Prefill  []string // prefill workers: URL, URL,BOOTSTRAP_PORT or URL,HOST:PORT
	Decode   []string // URLs of decode workers
	Discover []string // sources of more workers, "KIND:…"; see package discover
	Allow    []string // networks in which workers may be; see worker.Networks
	KeyFile  string   // with the API keys of workers; see worker.Keys; "": they want none
}

// Sources returns the configured sources in order of precedence: the listed workers first.
func (c *SourceConfig) Sources(log *slog.Logger) ([]discover.Source, error) {
	specs, err := c.specs()
	if err != nil {
		return nil, err
	}
	all := []discover.Source{discover.Static{Title: staticSource, Specs: specs}}
	seen := map[string]bool{}
	for _, text := range c.Discover {
		s, err := discover.Parse(text, log)
		if err != nil {
			return nil, err
		}
		if seen[text] {
			return nil, fmt.Errorf("cannot discover workers by %q twice: %w", secrets.MaskURL(text), discover.ErrSource)
		}
		seen[text] = true
		all = append(all, s)
	}
	return all, nil
}

// staticSource is the name of the source of --worker, --prefill and --decode.
const staticSource = "flags"

// specs returns the listed workers in normal form.
func (c *SourceConfig) specs() (specs []worker.Spec, err error) {
	all, err := c.parse()
	if err != nil {
		return nil, err
	}
	networks, err := worker.ParseNetworks(c.Allow)
	if err != nil {
		return nil, fmt.Errorf("cannot use --worker-allow: %w", err)
	}
	seen := map[string]bool{}
	for _, s := range all {
		s, err := s.Normal()
		if err == nil {
			err = networks.CheckSpec(s)
		}
		switch {
		case err != nil:
			return nil, err
		case seen[s.URL]:
			return nil, fmt.Errorf("cannot use worker %s twice: %w", s.URL, worker.ErrDuplicate)
		}
		seen[s.URL] = true
		specs = append(specs, s)
	}
	return specs, nil
}

func (c *SourceConfig) parse() (specs []worker.Spec, err error) {
	for _, url := range c.Workers {
		specs = append(specs, worker.Spec{URL: url})
	}
	for _, text := range c.Prefill {
		s, err := worker.ParsePrefill(text)
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	for _, url := range c.Decode {
		specs = append(specs, worker.Spec{URL: url, Role: worker.RoleDecode})
	}
	return specs, nil
}
