package router

import (
	"fmt"

	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// workerSpecs are the workers that the operator named, in the registry's form.
func workerSpecs(cfg *Config) (specs []worker.Spec, err error) {
	named := map[string]bool{}
	all, err := namedSpecs(cfg)
	for _, s := range all {
		s, bad := s.Normal()
		switch {
		case bad != nil:
			return nil, bad
		case named[s.URL]:
			return nil, fmt.Errorf("cannot use worker %s twice: %w", s.URL, worker.ErrDuplicate)
		}
		named[s.URL] = true
		specs = append(specs, s)
	}
	return specs, err
}

func namedSpecs(cfg *Config) (specs []worker.Spec, err error) {
	for _, url := range cfg.Workers {
		specs = append(specs, worker.Spec{URL: url})
	}
	for _, text := range cfg.Prefill {
		s, err := worker.ParsePrefill(text)
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	for _, url := range cfg.Decode {
		specs = append(specs, worker.Spec{URL: url, Role: worker.RoleDecode})
	}
	return specs, nil
}

// flagSource is the name of the source that --worker, --prefill and --decode are.
const flagSource = "flags"

// sources are where workers come from, first those that count most.
func sources(cfg *Config) ([]discover.Source, error) {
	specs, err := workerSpecs(cfg)
	if err != nil {
		return nil, err
	}
	all := []discover.Source{discover.Static{Title: flagSource, Specs: specs}}
	named := map[string]bool{}
	for _, text := range cfg.Discover {
		s, err := discover.Parse(text, cfg.Log)
		if err != nil {
			return nil, err
		}
		if named[text] {
			return nil, fmt.Errorf("cannot discover workers by %q twice: %w", text, discover.ErrSource)
		}
		named[text] = true
		all = append(all, s)
	}
	return all, nil
}
