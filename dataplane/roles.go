package dataplane

import "github.com/warmpath/warmpath/dataplane/worker"

// workerSpecs are the workers that the operator named.
func workerSpecs(cfg *Config) (specs []worker.Spec, err error) {
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

func checkWorkers(cfg *Config) error {
	_, err := workerSpecs(cfg)
	return err
}

// addWorkers adds the workers that the operator named.
func (d *Dataplane) addWorkers() error {
	specs, err := workerSpecs(&d.cfg)
	for _, spec := range specs {
		if _, err := d.registry.AddSpec(spec); err != nil {
			return err
		}
	}
	return err
}
