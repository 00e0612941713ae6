package warmpath_test

import (
	"flag"
	"fmt"
	"go/doc"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// update makes TestArchitectureTable write its table.
var update = flag.Bool("update", false, "write generated parts of the documents")

// TestReferencePackages compares the table of packages with the package docs and the rules that
// TestImportDirection enforces.
func TestReferencePackages(t *testing.T) {
	compareReference(t, "packages", packageTable(t))
}

// packageTable lists each folder with the first sentence of its package doc and its imports.
func packageTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| folder | job | imports of ours |\n| --- | --- | --- |\n")
	folders := sources(t)
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if folder == "." {
			continue
		}
		var job string
		for _, s := range folders[folder] {
			if s.file.Doc != nil && !s.isTest() {
				job = firstSentence(s.file.Doc.Text(), s.file.Name.Name)
			}
		}
		var imports []string
		for _, name := range slices.Sorted(slices.Values(rules[folder].allow)) {
			imports = append(imports, "`"+strings.TrimPrefix(name, "dataplane/")+"`")
		}
		list := strings.Join(imports, " ")
		if list == "`...`" {
			list = "all"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", folder, job, list)
	}
	return b.String()
}

// firstSentence is the synopsis of a package doc without "Package name".
func firstSentence(text, name string) string {
	s := new(doc.Package).Synopsis(text)
	for _, prefix := range []string{"Package " + name + " ", "Command " + name + " "} {
		s = strings.TrimPrefix(s, prefix)
	}
	return strings.ReplaceAll(strings.TrimSuffix(s, "."), "|", "\\|")
}

// TestRulesAreUsed finds allowances that no file needs.
func TestRulesAreUsed(t *testing.T) {
	for folder, files := range sources(t) {
		used := map[string]bool{"...": true}
		for _, s := range files {
			for _, spec := range s.file.Imports {
				if name, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/"); ours && !s.isTest() {
					used[name] = true
				}
			}
		}
		for _, name := range rules[folder].allow {
			if !used[name] {
				t.Errorf("%s may import %s and does not: delete the allowance", folder, name)
			}
		}
	}
}

// TestRouterReachesNoGPU holds the router's packages to pure Go: GPU libraries belong to the sidecar.
func TestRouterReachesNoGPU(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./dataplane/router").Output()
	if err != nil {
		t.Fatalf("cannot list the packages of the router: %v", err)
	}
	never := []string{"cgo", "nixl", "nvml", "dataplane/sidecar", "dataplane/kvtier/store"}
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		if name, ours := strings.CutPrefix(dep, module+"/"); ours && below(name, never) || path.Base(dep) == "go-nvml" {
			t.Errorf("dataplane/router reaches %s", dep)
		}
	}
}
