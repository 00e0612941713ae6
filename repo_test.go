package warmpath_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/warmpath/warmpath"

// rule says what the non-test files of a folder may import. Everything of this module that is not allowed is forbidden;
// everything else is allowed unless it is named in never.
type rule struct {
	allow []string // folders of this module; "..." is all of it
	never []string // other packages, with all below them
}

// The request path and its leaves stay free of net/http: it is five times the CPU of fasthttp for a proxied request.
var (
	anyHTTP = []string{"net/http", "github.com/valyala/fasthttp"}
	// A policy is a pure function, so that a decision can be replayed: no clock, no chance, no lock, no I/O.
	anyState = append([]string{"time", "math/rand", "crypto/rand", "sync", "os", "net", "context", "log", "unsafe"}, anyHTTP...)
)

// rules is the direction of imports, leaves first. A folder that is not here may not hold Go files.
var rules = map[string]rule{
	".":                    {never: anyHTTP},
	"dataplane/machine":    {never: anyHTTP},
	"radix":                {allow: []string{"radix/internal/keyed"}, never: anyHTTP},
	"radix/approx":         {allow: []string{"radix/internal/keyed"}, never: anyHTTP},
	"radix/internal/keyed": {never: anyHTTP},
	"zmq":                  {never: anyHTTP},
	"zmq/kvevent":          {never: anyHTTP},
	"nvml":                 {never: anyHTTP},
	"nvml/nvmltest":        {never: anyHTTP},
	"cgo":                  {never: anyHTTP},
	"cgo/cgotest":          {never: anyHTTP},
	"nixl/nixltest":        {allow: []string{"cgo", "nixl"}, never: anyHTTP},
	"nixl":                 {allow: []string{"cgo"}, never: anyHTTP},

	"dataplane/routing/policy":    {never: anyState},
	"dataplane/routing/turns":     {never: anyHTTP},
	"dataplane/prompt/openai":     {},
	"dataplane/tlsconfig":         {allow: []string{"dataplane/regularfile"}, never: anyHTTP},
	"dataplane/routing/queue":     {never: anyHTTP},
	"dataplane/routing/session":   {},
	"dataplane/prompt/lint":       {never: anyHTTP},
	"dataplane/request/accesslog": {never: anyHTTP},
	"dataplane/secrets":           {never: []string{"net/http"}},
	"dataplane/tracing":           {allow: []string{"dataplane/secrets"}},
	"dataplane/tracing/otlptest":  {},
	"dataplane/request/clientkey": {allow: []string{"dataplane/regularfile", "dataplane/cluster/codec", "dataplane/request/jwks", "dataplane/tlsconfig"}, never: anyHTTP},
	"dataplane/request/jwks":      {allow: []string{"dataplane/regularfile", "dataplane/secrets", "dataplane/tlsconfig"}},
	// Rules that can be replayed: what they say of a machine follows from the facts alone, and their clock is passed in.
	"dataplane/sidecar/health":          {allow: []string{"nvml"}, never: append([]string{"sync", "os", "net", "context", "log", "unsafe"}, anyHTTP...)},
	"dataplane/request/disagg":          {allow: []string{"dataplane/prompt/openai"}},
	"dataplane/socket":                  {never: anyHTTP},
	"dataplane/ingress":                 {allow: []string{"dataplane/socket", "dataplane/tlsconfig"}, never: []string{"net/http"}},
	"dataplane/upstream":                {allow: []string{"dataplane/socket", "dataplane/tlsconfig"}, never: []string{"net/http"}},
	"dataplane/admin/console":           {},
	"dataplane/admin/history":           {never: anyHTTP},
	"dataplane/admin/top":               {allow: []string{"dataplane/admin", "dataplane/admin/history"}, never: anyHTTP},
	"dataplane/prompt/promptcache":      {allow: []string{"radix"}, never: anyHTTP},
	"dataplane/regularfile":             {never: anyHTTP},
	"dataplane/modelfile":               {allow: []string{"dataplane/regularfile"}, never: anyHTTP},
	"dataplane/modelfile/hub":           {allow: []string{"dataplane/modelfile", "dataplane/regularfile"}},
	"dataplane/fleet/worker":            {allow: []string{"dataplane/regularfile", "dataplane/modelfile", "dataplane/routing/policy", "dataplane/secrets", "dataplane/socket", "dataplane/tlsconfig"}},
	"dataplane/fleet/worker/workertest": {},
	"dataplane/fleet/load":              {allow: []string{"zmq", "zmq/kvevent", "dataplane/fleet/worker"}, never: anyHTTP},
	"dataplane/ingest":                  {allow: []string{"radix", "zmq", "zmq/kvevent", "dataplane/fleet/worker", "dataplane/secrets"}},
	"dataplane/operator":                {never: []string{"net/http"}},
	"dataplane/origin":                  {never: []string{"net/http"}},
	"dataplane/prompt/tokens": {allow: []string{
		"radix", "dataplane/prompt/openai", "dataplane/upstream", "dataplane/prompt/promptcache", "dataplane/prompt/tokenizer", "dataplane/prompt/chattemplate",
		"dataplane/fleet/worker", "dataplane/modelfile",
	}},
	"dataplane/prompt/tokenizer":    {never: anyHTTP},
	"dataplane/prompt/chattemplate": {never: anyHTTP},
	"dataplane/prompt/responses":    {allow: []string{"dataplane/prompt/openai"}},
	"dataplane/prompt/ollama":       {allow: []string{"dataplane/prompt/openai"}},
	"dataplane/prompt/anthropic":    {allow: []string{"dataplane/prompt/chattemplate", "dataplane/prompt/openai"}},
	"dataplane/routing": {allow: []string{
		"radix", "radix/approx", "dataplane/ingest", "dataplane/routing/policy", "dataplane/routing/session", "dataplane/routing/turns",
		"dataplane/fleet/worker",
	}},
	"dataplane/request": {allow: []string{
		"radix", "dataplane/admin/history", "dataplane/request/accesslog", "dataplane/request/clientkey", "dataplane/request/disagg", "dataplane/request/jwks", "dataplane/prompt/openai",
		"dataplane/prompt/anthropic", "dataplane/prompt/chattemplate", "dataplane/prompt/lint", "dataplane/prompt/ollama", "dataplane/prompt/promptcache",
		"dataplane/prompt/responses", "dataplane/prompt/tokens", "dataplane/routing", "dataplane/routing/policy",
		"dataplane/routing/queue", "dataplane/ingress", "dataplane/origin", "dataplane/tracing", "dataplane/upstream", "dataplane/fleet/worker",
	}},
	"dataplane/admin": {allow: []string{
		"radix", "radix/approx", "dataplane/admin/console", "dataplane/admin/history", "dataplane/cluster", "dataplane/fleet", "dataplane/fleet/worker", "dataplane/ingest",
		"dataplane/ingress", "dataplane/kvtier/directory", "dataplane/operator", "dataplane/origin", "dataplane/prompt/lint", "dataplane/prompt/openai", "dataplane/prompt/promptcache",
		"dataplane/prompt/tokens", "dataplane/request", "dataplane/request/accesslog", "dataplane/routing",
		"dataplane/routing/peers", "dataplane/routing/policy", "dataplane/routing/queue", "dataplane/upstream",
	}},
	"dataplane/fleet": {allow: []string{"dataplane/cluster", "dataplane/fleet/discover", "dataplane/fleet/worker", "dataplane/routing/policy", "dataplane/secrets"}, never: anyHTTP},
	"dataplane/router/config": {allow: []string{
		"dataplane/cluster", "dataplane/fleet", "dataplane/ingest", "dataplane/machine", "dataplane/origin", "dataplane/prompt/tokens", "dataplane/routing/policy", "dataplane/tlsconfig",
		"dataplane/tracing",
	}, never: anyHTTP},
	"dataplane/router": {allow: []string{
		"zmq", "dataplane/admin", "dataplane/cluster", "dataplane/fleet", "dataplane/fleet/discover", "dataplane/fleet/load", "dataplane/fleet/worker",
		"dataplane/ingest", "dataplane/ingress", "dataplane/kvtier/directory", "dataplane/modelfile", "dataplane/modelfile/hub", "dataplane/prompt/lint", "dataplane/prompt/promptcache", "dataplane/prompt/tokens",
		"dataplane/request", "dataplane/request/accesslog", "dataplane/request/clientkey", "dataplane/request/jwks", "dataplane/router/config", "dataplane/routing", "dataplane/routing/peers", "dataplane/tlsconfig", "dataplane/tracing", "dataplane/upstream",
	}},
	"dataplane/service":           {never: anyHTTP},
	"dataplane/bubbletest":        {never: anyHTTP},
	"dataplane/leaktest":          {never: anyHTTP},
	"dataplane/testkit":           {never: anyHTTP},
	"dataplane/tlsconfig/tlstest": {never: anyHTTP},
	"dataplane/request/requesttest": {allow: []string{
		"radix", "zmq", "dataplane/admin", "dataplane/cluster/natstest", "dataplane/fleet", "dataplane/fleet/worker", "dataplane/ingest", "dataplane/ingress",
		"dataplane/request", "dataplane/routing", "dataplane/routing/policy", "dataplane/testkit", "dataplane/tlsconfig/tlstest", "dataplane/upstream",
	}},
	"dataplane/ingress/ingresstest": {allow: []string{
		"dataplane/cluster/natstest", "dataplane/ingress", "dataplane/tlsconfig/tlstest",
	}},
	"dataplane/cluster":          {allow: []string{"dataplane/secrets", "dataplane/tlsconfig"}},
	"dataplane/freeport":         {never: anyHTTP},
	"dataplane/cluster/natstest": {allow: []string{"dataplane/freeport"}},
	"dataplane/cluster/codec":    {never: anyHTTP},
	"dataplane/fleet/discover":   {allow: []string{"dataplane/regularfile", "dataplane/fleet/worker", "dataplane/secrets"}},
	"dataplane/routing/peers":    {allow: []string{"dataplane/cluster/codec", "dataplane/routing", "dataplane/fleet/worker"}},
	"dataplane/sidecar":          {allow: []string{"nvml", "nixl", "dataplane/cluster", "dataplane/sidecar/health", "dataplane/sidecar/link", "dataplane/tlsconfig", "dataplane/kvtier/announce", "dataplane/kvtier/hint", "dataplane/kvtier/store", "dataplane/fleet/worker", "dataplane/operator", "dataplane/origin"}},
	"dataplane/kvtier/proto":     {never: anyHTTP},
	"dataplane/kvtier/announce":  {allow: []string{"dataplane/cluster/codec", "dataplane/kvtier/proto"}, never: anyHTTP},
	"dataplane/kvtier/hint":      {allow: []string{"dataplane/cluster/codec"}, never: anyHTTP},
	"dataplane/kvtier/store":     {allow: []string{"nixl", "dataplane/kvtier/proto", "dataplane/kvtier/hint", "dataplane/cluster", "dataplane/cluster/codec", "dataplane/tlsconfig"}},
	"dataplane/kvtier/directory": {allow: []string{"dataplane/kvtier/announce", "dataplane/kvtier/hint", "dataplane/kvtier/proto", "dataplane/routing"}, never: anyHTTP},
	"dataplane/sidecar/link":     {allow: []string{"nixl", "dataplane/cluster"}},

	"bench/sim":        {allow: []string{"bench/proxy/wire", "zmq", "zmq/kvevent", "dataplane/prompt/anthropic", "dataplane/prompt/chattemplate", "dataplane/prompt/ollama", "dataplane/prompt/responses"}},
	"bench/trace":      {never: anyHTTP},
	"bench/replay":     {allow: []string{"bench/trace"}},
	"bench/engines":    {},
	"bench/policies":   {allow: []string{"bench/trace", "dataplane/routing/policy", "dataplane/routing/queue", "dataplane/routing/session"}},
	"bench/proxy":      {allow: []string{"bench/proxy/load"}},
	"bench/proxy/load": {allow: []string{"bench/trace", "bench/proxy/loop", "bench/proxy/mock", "bench/proxy/wire"}},
	"bench/proxy/loop": {},
	"bench/lru":        {never: anyHTTP},
	"bench/proxy/mock": {allow: []string{"bench/lru", "bench/proxy/loop", "bench/proxy/wire", "zmq", "zmq/kvevent"}},
	"bench/proxy/wire": {},
	"bench/index":      {allow: []string{"bench/lru", "bench/trace", "radix"}},
	"bench/chaos":      {allow: []string{"bench/sim", "dataplane/freeport"}},

	"bench/cmd":    {allow: []string{"bench/chaos", "bench/index", "bench/policies", "bench/proxy", "bench/proxy/load", "bench/proxy/mock"}},
	"cmd/warmpath": {allow: []string{"..."}},
}

// maxFileBytes bounds what is committed, but for raw results and test data.
const maxFileBytes = 1 << 20

// forbidden are words that point at one machine or at notes that are not in the repository. They are put together
// here so that this file does not hold them.
var forbidden = []string{"../" + "shared", "/wo" + "rk/", "/ro" + "ot/"}

// source is one parsed Go file.
type source struct {
	path string // slash-separated, from the root
	file *ast.File
	set  *token.FileSet
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// committed lists the files of the repository: what .gitignore leaves out is skipped by name.
func committed() (files []string, err error) {
	err = fs.WalkDir(os.DirFS("."), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git" && !d.IsDir(): // of a worktree
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "__pycache__", ".venv", ".idea", ".vscode"}, d.Name()):
			return fs.SkipDir
		case d.Type().IsRegular() && !strings.Contains(d.Name(), ".tmp."):
			files = append(files, p)
		}
		return nil
	})
	return files, err
}

// parsed holds every Go file by folder, whatever its build tags. All tests share it.
var parsed = sync.OnceValues(func() (map[string][]source, error) {
	files, err := committed()
	if err != nil {
		return nil, err
	}
	folders := map[string][]source{}
	for _, p := range files {
		if path.Ext(p) != ".go" || strings.Contains(p, "testdata/") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		folders[path.Dir(p)] = append(folders[path.Dir(p)], source{p, file, set})
	}
	return folders, nil
})

func sources(t *testing.T) map[string][]source {
	t.Helper()
	folders, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// below reports whether a package is one of list or lies below one.
func below(name string, list []string) bool {
	return slices.ContainsFunc(list, func(other string) bool {
		return other == "..." || name == other || strings.HasPrefix(name, other+"/")
	})
}

func TestImportDirection(t *testing.T) {
	folders := sources(t)
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		rule, ok := rules[folder]
		if !ok {
			t.Errorf("%s is not in the table of rules: say there what it may import", folder)
			continue
		}
		for _, s := range folders[folder] {
			for _, spec := range s.file.Imports {
				if name := strings.Trim(spec.Path.Value, `"`); !s.isTest() && !rule.permits(name) {
					t.Errorf("%s imports %s, which the table of rules does not allow", s.path, name)
				}
			}
		}
	}
}

// permits reports whether an import is in the direction of the rule.
func (r rule) permits(name string) bool {
	if name == module {
		return false
	}
	if folder, ours := strings.CutPrefix(name, module+"/"); ours {
		return slices.Contains(r.allow, folder) || slices.Contains(r.allow, "...")
	}
	return !below(name, r.never)
}

func TestRulePermits(t *testing.T) {
	r := rule{allow: []string{"zmq"}, never: []string{"net/http", "time"}}
	tests := map[string]bool{
		module + "/zmq":         true,
		module + "/zmq/kvevent": false, // a folder is allowed without what is below it
		module:                  false,
		"fmt":                   true,
		"timestamp":             true,
		"time":                  false,
		"net/http/httptest":     false, // and forbidden with what is below it
	}
	for name, want := range tests {
		if got := r.permits(name); got != want {
			t.Errorf("permits(%q) = %t, want %t", name, got, want)
		}
	}
	if !(rule{allow: []string{"..."}}).permits(module + "/radix") {
		t.Error("a rule that allows all of the module does not permit radix")
	}
}

func TestRulesAreNotStale(t *testing.T) {
	folders := sources(t)
	for folder, rule := range rules {
		for _, name := range append([]string{folder}, rule.allow...) {
			if _, ok := folders[name]; !ok && name != "..." {
				t.Errorf("the table of rules names %s, which has no Go files", name)
			}
		}
	}
}

// TestOnlyProgramsImportBench: a router has no part of the benchmarks or of the simulator, whatever
// the table of rules says. Tests outside of bench have none either, but for the index's workloads.
func TestOnlyProgramsImportBench(t *testing.T) {
	for folder, files := range sources(t) {
		if below(folder, []string{"bench", "cmd"}) {
			continue
		}
		for _, s := range files {
			for _, spec := range s.file.Imports {
				name, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
				if !ours || !below(name, []string{"bench"}) {
					continue
				}
				if folder != "radix" || !s.isTest() || name != "bench/index" {
					t.Errorf("%s imports %s: only bench and cmd do", s.path, name)
				}
			}
		}
	}
}

func TestOnlyCgoImportsC(t *testing.T) {
	for folder, files := range sources(t) {
		for _, s := range files {
			for _, spec := range s.file.Imports {
				if spec.Path.Value == `"C"` && folder != "cgo" {
					t.Errorf(`%s imports "C": only the package cgo does`, s.path)
				}
			}
		}
	}
}

func TestOnePackageDoc(t *testing.T) {
	for folder, files := range sources(t) {
		var docs []string
		want := path.Join(folder, "doc.go")
		for _, s := range files {
			if s.file.Name.Name == "main" {
				want = path.Join(folder, "main.go")
			}
			if s.file.Doc != nil && !s.isTest() {
				docs = append(docs, s.path)
			}
		}
		if !slices.Equal(docs, []string{want}) {
			t.Errorf("%s has its package doc in %v, want it in %s", folder, docs, want)
		}
	}
}

func TestCommittedText(t *testing.T) {
	files, err := committed()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range files {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		kept := strings.HasPrefix(p, "bench/results/") || strings.Contains(p, "testdata/")
		if len(data) > maxFileBytes && !kept {
			t.Errorf("%s has %d bytes, want at most %d outside bench/results and testdata", p, len(data), maxFileBytes)
		}
		if bytes.IndexByte(data, 0) >= 0 { // not text
			continue
		}
		for _, word := range forbidden {
			if before, _, found := bytes.Cut(data, []byte(word)); found {
				t.Errorf("%s:%d holds %q, which means nothing elsewhere", p, 1+bytes.Count(before, []byte("\n")), word)
			}
		}
	}
}

// TestAlone: a package that the Makefile tests without the race detector has one goroutine, or is a
// benchmark that the product does not import.
func TestAlone(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(strings.ReplaceAll(string(text), "\\\n", ""), "\nALONE := ")
	list, _, _ = strings.Cut(list, "\n")
	names := strings.Fields(list)
	if len(names) < 2 {
		t.Fatalf("the Makefile has the packages %q in ALONE", names)
	}
	folders, product := sources(t), productImports(t)
	for _, name := range names {
		name = path.Clean(name)
		files, ok := folders[name]
		if !ok {
			t.Errorf("ALONE names %s, which has no Go files", name)
		}
		if strings.HasPrefix(name, "bench/") && !product[name] {
			continue
		}
		for _, s := range files {
			ast.Inspect(s.file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s starts a goroutine: it needs the race detector", s.set.Position(n.Pos()))
				case *ast.SelectorExpr:
					if slices.Contains([]string{"Go", "Parallel", "RunParallel"}, n.Sel.Name) {
						t.Errorf("%s uses %s: it needs the race detector", s.set.Position(n.Pos()), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// productImports returns the folders that cmd/warmpath is built from.
func productImports(t *testing.T) map[string]bool {
	t.Helper()
	folders, found := sources(t), map[string]bool{}
	var add func(folder string)
	add = func(folder string) {
		if found[folder] {
			return
		}
		found[folder] = true
		for _, s := range folders[folder] {
			for _, spec := range s.file.Imports {
				if name, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/"); ours && !s.isTest() {
					add(name)
				}
			}
		}
	}
	add("cmd/warmpath")
	return found
}
