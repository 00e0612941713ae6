package tokens

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"

	"github.com/warmpath/warmpath/dataplane/modelfile"
	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

// fingerprint is a hash of the files and arguments that decide a worker's tokens; zero is unknown.
type fingerprint [sha256.Size]byte

// fingerprint hashes the worker's files and the arguments that matter beside them. Without files,
// only the arguments are known: then paths count.
func (f *modelFiles) fingerprint(s *Settings) fingerprint {
	h := sha256.New()
	args := *s
	args.Version = "" // another release of the engine renders alike as a rule
	if files, _, err := f.folder(s); err == nil && f.hash(h, files, s) == nil {
		args.Model, args.Tokenizer, args.Revision, args.ChatTemplate = "", "", "", ""
	} else {
		h.Reset()
	}
	_, _ = fmt.Fprintf(h, "%#v %t", args, chattemplate.NamesTemplate(s.Model))
	return fingerprint(h.Sum(nil))
}

// hash hashes the files of a folder and a chat template outside of it.
func (f *modelFiles) hash(h hash.Hash, files fs.FS, s *Settings) error {
	for i, name := range modelfile.TokenizerFiles {
		content, err := fs.ReadFile(files, name)
		if err != nil && (i == 0 || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
		hashContent(h, content, err == nil)
	}
	kind, architectures := architecture(files)
	_, _ = fmt.Fprintf(h, "%q %q", kind, architectures)
	if s.ChatTemplate == "" {
		return nil
	}
	content, err := f.template(s)
	if hashContent(h, content, err == nil); err != nil {
		// The name of a built-in one, or a file of another machine.
		_, _ = fmt.Fprintf(h, "%q", s.ChatTemplate)
	}
	return nil
}

// hashContent hashes a file's content and its length, or that there is none.
func hashContent(h hash.Hash, content []byte, found bool) {
	if !found {
		_, _ = h.Write(make([]byte, 8))
		return
	}
	own := sha256.Sum256(content)
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(content))+1))
	_, _ = h.Write(own[:])
}
