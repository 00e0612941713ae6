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
	return d.r.Read(d.ctx, filepath.Join(d.name, name), Limit(name), d.by)
}

// Open implements fs.FS; files are only read whole.
func (d Folder) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
}

// Limit returns the largest size of a model's file with that name, in bytes.
func Limit(name string) int64 {
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

// TokenizerFile is the file without which no token ids are made.
const TokenizerFile = "tokenizer.json"

// TokenizerFiles are the files that decide token ids, of which all but the first may be missing.
var TokenizerFiles = []string{TokenizerFile, "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "chat_template.json"}

// ConfigFile has a model's architecture, by which SGLang renders some chats.
const ConfigFile = "config.json"
