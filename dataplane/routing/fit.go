package routing

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// Fit returns the ranks that could take the prompt, however loaded they are: those that Pick would choose among. They are valid
// until the next use of s.
func (r *Router) Fit(s *Scratch, p *Prompt) ([]*worker.Rank, error) {
	err := r.gather(s, p, nil, time.Now())
	return s.ranks, err
}

// Decodes returns, after Fit, the decode ranks that the prefill ranks among its result could send to.
func (s *Scratch) Decodes() []*worker.Rank { return s.decodes }
