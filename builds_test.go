//go:build !race

package warmpath_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/asmdecl"
)

// TestOtherBuilds type-checks the builds that no other test compiles, and compares assembly with
// its declarations. A compiler would translate the standard library and all modules once more for
// each.
func TestOtherBuilds(t *testing.T) {
	tests := map[string]struct{ env, args []string }{
		// Without cgo warmpath has neither NIXL nor NVML, says so, and routes.
		"no cgo":            {[]string{"CGO_ENABLED=0"}, []string{"./cmd/warmpath"}},
		"tests without cgo": {[]string{"CGO_ENABLED=0"}, []string{"-test", "./cgo", "./dataplane/sidecar/health", "./nixl", "./nvml", "./radix", "./zmq/..."}},
		"arm64":             {[]string{"CGO_ENABLED=0", "GOARCH=arm64"}, []string{"-test", "./radix"}},
		"libzmq":            {nil, []string{"-tags=libzmq", "./cmd/warmpath"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			list := exec.Command("go", append([]string{"list", "-deps", "-compiled", "-json=ImportPath,Dir,CompiledGoFiles,SFiles,ImportMap"}, tt.args...)...)
			list.Env = append(os.Environ(), tt.env...)
			out, err := list.Output()
			if err != nil {
				t.Fatalf("cannot list the packages: %v", err)
			}
			c := checker{t: t, set: token.NewFileSet(), checked: map[string]*types.Package{"unsafe": types.Unsafe}}
			for text := json.NewDecoder(strings.NewReader(string(out))); ; {
				p := listed{}
				if err := text.Decode(&p); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				c.check(p)
			}
		})
	}
}

// listed is a package of `go list`, which lists it after those that it imports.
type listed struct {
	ImportPath, Dir         string
	CompiledGoFiles, SFiles []string // of the cache, or in Dir
	ImportMap               map[string]string
}

type checker struct {
	t       *testing.T
	set     *token.FileSet
	checked map[string]*types.Package
}

func (c *checker) check(p listed) {
	c.t.Helper()
	path, _, _ := strings.Cut(p.ImportPath, " ")
	if path == "unsafe" || strings.HasSuffix(path, ".test") { // generated
		return
	}
	ours := strings.HasPrefix(path, module)
	var files []*ast.File
	for _, name := range p.CompiledGoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(c.set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			c.t.Fatal(err)
		}
		files = append(files, f)
	}
	config := types.Config{
		IgnoreFuncBodies: !ours, Sizes: types.SizesFor("gc", "amd64"),
		Importer: importer(func(name string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[name]; ok {
				name = mapped
			}
			return c.checked[name], nil
		}),
		Error: func(err error) { c.t.Error(err) },
	}
	info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	done, _ := config.Check(path, c.set, files, &info)
	c.checked[p.ImportPath] = done
	if !ours || len(p.SFiles) == 0 {
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

type importer func(string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
