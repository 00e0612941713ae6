package warmpath_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"testing"
)

// TestDocumentedFiles finds files that documents name and that are gone. A name without a folder
// may be in any; one with a folder is below the root or below dataplane.
func TestDocumentedFiles(t *testing.T) {
	files, err := committed()
	if err != nil {
		t.Fatal(err)
	}
	known, bases := map[string]bool{}, map[string]bool{}
	for _, p := range files {
		known[p], bases[path.Base(p)] = true, true
	}
	quoted := regexp.MustCompile("`([\\w./-]+\\.(?:go|py|sh|s|md|jsonl|html|service))`")
	pages := slices.DeleteFunc(slices.Clone(files), func(name string) bool { return path.Ext(name) != ".md" || path.Dir(name) != "docs" })
	for _, page := range append(pages, glossaryPage, "ARCHITECTURE.md", "CONTRIBUTING.md", "AGENTS.md", "README.md", "SECURITY.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			name := m[1]
			switch {
			case known[name], known["dataplane/"+name], known["integrations/sglang/warmpath_sglang/"+name]:
			case path.Base(name) == name && bases[name]:
			case path.Base(path.Dir(name)) == path.Dir(name) && bases[path.Base(name)]: // store/evict.go
			default:
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
}
