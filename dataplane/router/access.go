package router

import "github.com/warmpath/warmpath/dataplane/request/accesslog"

// openAccessLog opens the file that the operator asked for, if any.
func openAccessLog(cfg *Config) (*accesslog.Log, error) {
	if cfg.AccessLog == "" {
		return nil, nil //nolint:nilnil // None is kept.
	}
	log := cfg.Log
	return accesslog.Open(cfg.AccessLog, func(err error) { log.Error("access log", "error", err) })
}

// ReopenLogs opens the access log anew under its name, after it was moved away.
func (d *Router) ReopenLogs() {
	if d.accessLog != nil {
		d.accessLog.Reopen()
	}
}
