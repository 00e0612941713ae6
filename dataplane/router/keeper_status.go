package router

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
)

// operators is the name of the source that POST /workers is.
const operators = "api"

var _ admin.Fleet = (*keeper)(nil)

// Sources implements admin.Fleet.
func (k *keeper) Sources() []admin.SourceStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]admin.SourceStatus, 0, len(k.feeds)+1)
	for _, f := range k.feeds {
		st := admin.SourceStatus{Name: f.source.Name(), Workers: len(f.specs), Answered: f.answered}
		if f.answered {
			st.AgeSeconds = time.Since(f.at).Seconds()
		}
		if s, ok := f.source.(discover.Troubled); ok && s.Trouble() != nil {
			st.Error = s.Trouble().Error()
		}
		if f.failed != nil {
			st.Error = f.failed.Error()
		}
		all = append(all, st)
	}
	if len(k.own) > 0 {
		all = append(all, admin.SourceStatus{Name: operators, Workers: len(k.own), Answered: true})
	}
	return all
}

// Origins implements admin.Fleet.
func (k *keeper) Origins(url string) (names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.kept[url]
	if t == nil || !t.left.IsZero() {
		return nil
	}
	if _, owned := k.own[url]; owned {
		names = append(names, operators)
	}
	for _, f := range t.feeds {
		names = append(names, f.source.Name())
	}
	return names
}
