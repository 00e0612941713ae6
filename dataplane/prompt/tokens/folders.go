package tokens

import (
	"errors"
	"fmt"
	"strings"
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
