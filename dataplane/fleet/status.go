package fleet

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
)

// operatorSource names the workers of POST /workers where sources are listed.
const operatorSource = "api"

// SourceStatus describes one source of workers.
type SourceStatus struct {
	Name    string `json:"name"`
	Workers int    `json:"workers"`
	// False: it has named no worker yet, and so removes none.
	Answered   bool    `json:"answered"`
	AgeSeconds float64 `json:"age_seconds"`     // since its answer changed
	Error      string  `json:"error,omitempty"` // why it cannot answer; its last answer holds
	// Workers that stay in use while they answer, as the source names none that does any more.
	Kept int `json:"kept,omitempty"`
}

// Sources returns the status of each source.
func (m *Manager) Sources() []SourceStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]SourceStatus, 0, len(m.sources)+1)
	for _, f := range m.sources {
		st := SourceStatus{Name: f.source.Name(), Workers: len(f.specs), Answered: f.answered}
		if f.answered {
			st.AgeSeconds = time.Since(f.at).Seconds()
		}
		if s, ok := f.source.(discover.Troubled); ok && s.Trouble() != nil {
			st.Error = s.Trouble().Error()
		}
		for _, t := range m.members {
			if t.held == heldByDoubt && slices.Contains(t.sources, f) {
				st.Kept++
			}
		}
		if f.failed != nil {
			st.Error = f.failed.Error()
		}
		all = append(all, st)
	}
	if len(m.added) > 0 {
		all = append(all, SourceStatus{Name: operatorSource, Workers: len(m.added), Answered: true})
	}
	return all
}

// Origins returns the names of the sources of a worker; none: it is leaving.
func (m *Manager) Origins(url string) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.members[url]
	if t == nil || !t.left.IsZero() {
		return nil
	}
	if _, added := m.added[url]; added {
		names = append(names, operatorSource)
	}
	for _, f := range t.sources {
		names = append(names, f.source.Name())
	}
	return names
}

// LocalWorkers returns the URLs of workers that the cluster does not name, sorted.
func (m *Manager) LocalWorkers() (urls []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for url, t := range m.members {
		_, added := m.added[url]
		if added || slices.ContainsFunc(t.sources, func(f *sourceState) bool { _, shared := f.source.(*ClusterSource); return !shared }) {
			urls = append(urls, url)
		}
	}
	slices.Sort(urls)
	return urls[:min(len(urls), cluster.MaxWorkers)]
}
