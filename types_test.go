package warmpath_test

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// An object is as small as its files: above these sizes a type has several responsibilities.
const maxMethods, maxMethodFiles, maxFields = 25, 3, 20

// larger lists the types that exceed the limits, with the reason.
var larger = map[string]string{}

// shape is the size of one type.
type shape struct {
	methods, fields int
	files           []string // that hold methods
}

// shapes measures the types of one folder, tests excluded.
func shapes(files []source) map[string]*shape {
	all := map[string]*shape{}
	of := func(name string) *shape {
		if all[name] == nil {
			all[name] = &shape{}
		}
		return all[name]
	}
	for _, s := range files {
		if s.isTest() || ast.IsGenerated(s.file) {
			continue
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					continue
				}
				t := of(receiver(d.Recv.List[0].Type))
				t.methods++
				if name := platformless(s.path); !slices.Contains(t.files, name) {
					t.files = append(t.files, name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok {
						if fields, ok := t.Type.(*ast.StructType); ok {
							of(t.Name.Name).fields = fields.Fields.NumFields()
						}
					}
				}
			}
		}
	}
	return all
}

// receiver is the name of a method's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

// platformless strips what build constraints add to a file's name: the variants of one file for
// several systems count once.
func platformless(file string) string {
	name := strings.TrimSuffix(path.Base(file), ".go")
	for _, suffix := range []string{"_linux", "_other", "_amd64", "_arm64", "_nocgo", "_cgo"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

func TestTypeSizes(t *testing.T) {
	seen := map[string]bool{}
	for folder, files := range sources(t) {
		for name, s := range shapes(files) {
			id := folder + "." + name
			if s.methods <= maxMethods && len(s.files) <= maxMethodFiles && s.fields <= maxFields {
				continue
			}
			if seen[id] = true; larger[id] == "" {
				t.Errorf("%s has %d methods in %d files and %d fields, want at most %d, %d and %d",
					id, s.methods, len(s.files), s.fields, maxMethods, maxMethodFiles, maxFields)
			}
		}
	}
	for id := range larger {
		if !seen[id] {
			t.Errorf("%s is within the limits, or gone: delete its exception", id)
		}
	}
}
