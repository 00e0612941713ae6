package tokens

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

// fingerprint is a hash of the files and arguments that decide a worker's tokens; zero is unknown.
type fingerprint [sha256.Size]byte

// fingerprintedFiles are the files that loadModel reads whole, of which all but the first may be
// missing.
var fingerprintedFiles = []string{"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "chat_template.json"}

// fingerprint hashes the worker's files, or those of dir, and the arguments that matter beside
// them. Without files, only the arguments are known: then paths count.
func (s *Settings) fingerprint(dir string) fingerprint {
	h := sha256.New()
	args := *s
	args.Version = "" // another release of the engine renders alike as a rule
	if folder, err := s.folder(dir); err == nil && s.hashFiles(h, folder) == nil {
		args.Model, args.Tokenizer, args.ChatTemplate = "", "", ""
	} else {
		h.Reset()
	}
	_, _ = fmt.Fprintf(h, "%#v %t", args, chattemplate.NamesTemplate(s.Model))
	return fingerprint(h.Sum(nil))
}

// hashFiles hashes the files of a folder and a chat template outside of it.
func (s *Settings) hashFiles(h hash.Hash, folder string) error {
	for i, name := range fingerprintedFiles {
		if err := hashFile(h, filepath.Join(folder, name)); err != nil && (i == 0 || !os.IsNotExist(err)) {
			return err
		}
	}
	kind, architectures := architecture(os.DirFS(folder))
	_, _ = fmt.Fprintf(h, "%q %q", kind, architectures)
	if s.ChatTemplate == "" {
		return nil
	}
	if err := hashFile(h, s.ChatTemplate); err != nil {
		// The name of a built-in one, or a file of another machine.
		_, _ = fmt.Fprintf(h, "%q", s.ChatTemplate)
	}
	return nil
}

// hashFile hashes a file's content and its length.
func hashFile(h hash.Hash, path string) error {
	f, err := os.Open(path) //nolint:gosec // a path that the operator or the worker named
	if err != nil {
		_, _ = h.Write(make([]byte, 8))
		return err
	}
	defer f.Close()
	own := sha256.New()
	n, err := io.Copy(own, f)
	if err != nil {
		return err
	}
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)+1))
	_, _ = h.Write(own.Sum(nil))
	return nil
}
