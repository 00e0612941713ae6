package modelfile

import (
	"context"
	"io/fs"
	"path/filepath"
)

// Folder is a model's folder as a file system of which whole files are read.
type Folder struct {
	ctx  context.Context //nolint:containedctx // an fs.FS takes none
	r    *Reader
	name string
	by   Origin
}

var _ fs.ReadFileFS = Folder{}

// Folder returns a folder that is read until ctx ends.
func (r *Reader) Folder(ctx context.Context, name string, by Origin) Folder {
	return Folder{ctx, r, name, by}
}

// ReadFile implements fs.ReadFileFS.
func (d Folder) ReadFile(name string) ([]byte, error) {
	return d.r.Read(d.ctx, filepath.Join(d.name, name), limitOf(name), d.by)
}

// Open implements fs.FS; files are only read whole.
func (d Folder) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
}

// limitOf is the largest size of a file with that name.
func limitOf(name string) int64 {
	switch filepath.Ext(name) {
	case ".jinja":
		return MaxTemplate
	default:
		if name == "tokenizer.json" {
			return MaxTokenizer
		}
		return MaxConfig
	}
}
