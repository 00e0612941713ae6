package admin

import "github.com/warmpath/warmpath/dataplane/admin/history"

// Counts reads the counts that the history is made of.
func (a *API) Counts() history.Counts { return a.status.past.counts() }
