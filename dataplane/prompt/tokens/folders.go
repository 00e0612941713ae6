package tokens

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/dataplane/modelfile"
)

// ErrFolders is a list with two folders for one model.
var ErrFolders = errors.New("tokens: two folders for one model")

// ParseFolders reads the folders of models by served name: "NAME=DIR", or "DIR" for every model
// without a folder of its own.
func ParseFolders(paths []string) (map[string]string, error) {
	folders := map[string]string{}
	for _, p := range paths {
		name, dir, named := strings.Cut(p, "=")
		if !named {
			name, dir = "", p
		}
		if old, twice := folders[name]; twice {
			return nil, fmt.Errorf("cannot use --model-path %s beside %s: %w", p, old, ErrFolders)
		}
		folders[name] = dir
	}
	return folders, nil
}

// Hub finds models by their names at Hugging Face's hub.
type Hub interface {
	// Folder returns the folder with a model's files, however long that takes, until ctx ends.
	// failed gets the reason of each delay. The error is that of ctx.
	Folder(ctx context.Context, name modelfile.HubName, failed func(error)) (string, error)
}

// ownFolder is an operator's folder of a model's files.
type ownFolder struct {
	path string // "" where there is none
	err  error  // why there is none yet: the workers' own files serve meanwhile
}

var errFetching = errors.New("tokens: its files are looked for at the hub")

// ownFolders returns Folders, and the keys of those that are models of the hub.
func (c *ModelsConfig) ownFolders() (map[string]ownFolder, map[modelfile.HubName][]string) {
	own, wanted := map[string]ownFolder{}, map[modelfile.HubName][]string{}
	for key, path := range c.Folders {
		own[key] = ownFolder{path: path}
		if hub, ok := modelfile.OperatorHubName(path); ok && c.Hub != nil {
			own[key] = ownFolder{err: errFetching}
			wanted[hub] = append(wanted[hub], key)
		}
	}
	return own, wanted
}

// ownKeyLocked returns the key of the operator's folder for a served name.
func (ms *Models) ownKeyLocked(name string) string {
	if _, named := ms.own[name]; named {
		return name
	}
	return ""
}

func (ms *Models) ownLocked(name string) ownFolder { return ms.own[ms.ownKeyLocked(name)] }

// addresses differ from one attempt to the next: a connection's own port, the hub's many hosts.
var addresses = regexp.MustCompile(`\S*:[0-9]+`)

// fetch finds the operator's models of the hub in the background.
func (ms *Models) fetch() {
	for hub, keys := range ms.wanted {
		go func() {
			said := ""
			path, err := ms.cfg.Hub.Folder(ms.ctx, hub, func(err error) {
				err = brief(err)
				ms.setOwn(keys, ownFolder{err: err})
				if why := addresses.ReplaceAllString(err.Error(), ""); why != said {
					said = why
					ms.cfg.Log.Warn("a model's files cannot be had now, which is tried again", "model", hub, "reason", err)
				}
			})
			if err == nil {
				ms.setOwn(keys, ownFolder{path: path})
			}
		}()
	}
}

// setOwn notes the folder for these keys, or why there is none yet. The workers' models are read
// from it.
func (ms *Models) setOwn(keys []string, found ownFolder) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, key := range keys {
		ms.own[key] = found
	}
	if found.err != nil {
		return
	}
	for name, sl := range ms.served {
		if slices.Contains(keys, ms.ownKeyLocked(name)) {
			for worker, o := range sl.workers {
				o.fingerprint = fingerprint{} // else workers differ until all are read
				ms.readLocked(name, sl, worker)
			}
			ms.updateLocked(name, sl)
		}
	}
}
