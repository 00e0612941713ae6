//go:build !race

package warmpath_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/asmdecl"
)

// TestOtherBuilds type-checks this module's packages in the builds that no other test compiles, and
// compares assembly with its declarations. What they import of others is known from the usual build:
// a compiler would translate the standard library and all modules once more for each.
func TestOtherBuilds(t *testing.T) {
	builds := []struct {
		name      string
		env, args []string
		packages  []listed
	}{
		// Without cgo warmpath has neither NIXL nor NVML, says so, and routes.
		{name: "no cgo", env: []string{"CGO_ENABLED=0"}, args: []string{"./cmd/warmpath"}},
		{name: "tests without cgo", env: []string{"CGO_ENABLED=0"}, args: []string{"-test", "./cgo", "./dataplane/sidecar/health", "./nixl", "./nvml", "./radix", "./zmq/..."}},
		{name: "arm64", env: []string{"CGO_ENABLED=0", "GOARCH=arm64"}, args: []string{"-test", "./radix"}},
		{name: "libzmq", args: []string{"-tags=libzmq", "./cmd/warmpath"}},
	}
	others := map[string]bool{}
	for i := range builds {
		b := &builds[i]
		for _, p := range list(t, b.env, append([]string{"-deps"}, b.args...)...) {
			if !strings.HasPrefix(p.ImportPath, module) || strings.HasSuffix(p.ImportPath, ".test") { // generated
				continue
			}
			b.packages = append(b.packages, p)
			for _, path := range p.Imports {
				others[path] = !strings.HasPrefix(path, module) && path != "C" && path != "unsafe"
			}
		}
		require.NotEmpty(t, b.packages)
	}
	maps.DeleteFunc(others, func(_ string, other bool) bool { return !other })
	exports := map[string]string{}
	for _, p := range list(t, nil, append([]string{"-export"}, slices.Sorted(maps.Keys(others))...)...) {
		exports[p.ImportPath] = p.Export
	}
	set := token.NewFileSet()
	outside := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, b := range builds {
		t.Run(b.name, func(t *testing.T) {
			c := checker{t: t, set: set, outside: outside, checked: map[string]*types.Package{}}
			for _, p := range b.packages {
				c.check(p)
			}
		})
	}
}

// listed is a package of `go list`, which lists it after those that it imports.
type listed struct {
	ImportPath, Dir, Export            string
	GoFiles, CgoFiles, SFiles, Imports []string
	ImportMap                          map[string]string
}

func list(t *testing.T, env []string, args ...string) (packages []listed) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Export,GoFiles,CgoFiles,SFiles,Imports,ImportMap"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, "cannot list the packages")
	for text := json.NewDecoder(bytes.NewReader(out)); text.More(); {
		p := listed{}
		require.NoError(t, text.Decode(&p))
		packages = append(packages, p)
	}
	return packages
}

type checker struct {
	t       *testing.T
	set     *token.FileSet
	outside types.Importer
	checked map[string]*types.Package // this module's
}

func (c *checker) check(p listed) {
	c.t.Helper()
	var files []*ast.File
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		f, err := parser.ParseFile(c.set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		require.NoError(c.t, err)
		files = append(files, f)
	}
	config := types.Config{
		FakeImportC: true, IgnoreFuncBodies: len(p.CgoFiles) > 0, // the usual build compiles them
		Sizes: types.SizesFor("gc", "amd64"),
		Importer: importerFunc(func(name string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[name]; ok {
				name = mapped
			}
			if done := c.checked[name]; done != nil {
				return done, nil
			}
			return c.outside.Import(name)
		}),
		Error: func(err error) { c.t.Error(err) },
	}
	info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	done, _ := config.Check(path, c.set, files, &info)
	c.checked[p.ImportPath] = done
	if len(p.SFiles) == 0 {
		return
	}
	pass := &analysis.Pass{
		Analyzer: asmdecl.Analyzer, Fset: c.set, Files: files, Pkg: done, TypesInfo: &info, TypesSizes: config.Sizes, ReadFile: os.ReadFile,
		Report: func(d analysis.Diagnostic) { c.t.Errorf("%s: %s", c.set.Position(d.Pos), d.Message) },
	}
	for _, name := range p.SFiles {
		pass.OtherFiles = append(pass.OtherFiles, filepath.Join(p.Dir, name))
	}
	if _, err := asmdecl.Analyzer.Run(pass); err != nil {
		c.t.Error(err)
	}
}

type importerFunc func(string) (*types.Package, error)

func (i importerFunc) Import(path string) (*types.Package, error) { return i(path) }
