package warmpath_test

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const glossaryPage = "docs/glossary.md"

// entry is a row of the glossary.
type entry struct {
	word    string
	names   []string // Go names, as "dataplane/fleet/worker.Worker"
	instead []string // words that no exported name, folder or file may hold
}

// glossary reads the table of its page.
func glossary(t *testing.T) (entries []entry) {
	t.Helper()
	page, err := os.ReadFile(glossaryPage)
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || strings.HasPrefix(cells[1], " ---") || strings.TrimSpace(cells[1]) == "word" {
			continue
		}
		e := entry{word: strings.TrimSpace(cells[1])}
		for _, m := range quoted.FindAllStringSubmatch(cells[3], -1) {
			e.names = append(e.names, m[1])
		}
		for word := range strings.SplitSeq(cells[4], ",") {
			if word = strings.TrimSpace(word); word != "" {
				e.instead = append(e.instead, word)
			}
		}
		entries = append(entries, e)
	}
	if len(entries) < 35 {
		t.Fatalf("%s has %d rows: is it still a table of four columns?", glossaryPage, len(entries))
	}
	return entries
}

// exported lists a folder's exported names outside tests: types, functions, methods, fields,
// constants and variables, each with its position.
func exported(files []source) map[string]string {
	names := map[string]string{}
	for _, s := range files {
		if s.isTest() {
			continue
		}
		note := func(id *ast.Ident) {
			if id.IsExported() {
				names[id.Name] = s.set.Position(id.Pos()).String()
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				note(n.Name)
				return false
			case *ast.TypeSpec:
				note(n.Name)
			case *ast.ValueSpec:
				for _, id := range n.Names {
					note(id)
				}
			case *ast.Field:
				for _, id := range n.Names {
					note(id)
				}
			}
			return true
		})
	}
	return names
}

// camelWords splits "NewKVTier" into new, kv and tier.
func camelWords(name string) (words []string) {
	runes := []rune(name)
	begin := 0
	for i := 1; i <= len(runes); i++ {
		end := i == len(runes)
		upper := !end && unicode.IsUpper(runes[i])
		inside := upper && unicode.IsUpper(runes[i-1]) && (i+1 == len(runes) || !unicode.IsLower(runes[i+1]))
		if end || (upper && !inside) || runes[i] == '_' {
			words = append(words, strings.ToLower(strings.Trim(string(runes[begin:i]), "_")))
			begin = i
		}
	}
	return words
}

func TestCamelWords(t *testing.T) {
	for name, want := range map[string]string{
		"NewKVTier": "new kv tier", "URL": "url", "file_name": "file name", "Shelf": "shelf", "HTTPServer": "http server",
	} {
		if got := strings.Join(camelWords(name), " "); got != want {
			t.Errorf("camelWords(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestGlossary holds names to the glossary: its Go names exist, each is declared once, and no
// exported name, folder or file uses a word that the glossary replaces.
func TestGlossary(t *testing.T) {
	folders, instead := sources(t), map[string]string{}
	declared := map[string][]string{} // folders of the product that export a type or function of that name
	for folder, files := range folders {
		if strings.HasPrefix(folder, "bench") {
			continue
		}
		for name := range exported(files) {
			declared[name] = append(declared[name], folder)
		}
	}
	for _, e := range glossary(t) {
		for _, word := range e.instead {
			instead[word] = e.word
		}
		for _, name := range e.names {
			folder, id := path.Split(name)
			pkg, id, _ := strings.Cut(id, ".")
			if !slices.Contains(declared[id], folder+pkg) {
				t.Errorf("the glossary names %s for %q, which does not exist", name, e.word)
			}
		}
	}
	for folder, files := range folders {
		for name, at := range exported(files) {
			for _, word := range camelWords(name) {
				if better := instead[word]; better != "" {
					t.Errorf("%s: %s holds %q: the glossary's word is %q", at, name, word, better)
				}
			}
		}
		for _, s := range files {
			words := camelWords(strings.TrimSuffix(path.Base(s.path), ".go"))
			for _, word := range append(words, strings.Split(folder, "/")...) {
				if better := instead[word]; better != "" {
					t.Errorf("%s holds %q: the glossary's word is %q", s.path, word, better)
				}
			}
		}
	}
}

// Comments are read in two columns of a screen, with tabs of four.
const maxCommentColumns = 100

// Share of "what", "who" and their like among the words of comments, for 1,000: fasthttp has 0.3,
// Caddy 1.0. More of them means sentences without a subject.
const maxVaguePerMille = 1.0

var vague = regexp.MustCompile(`(?i)\b(what|who|whose|whom|whatever|whoever)\b`)

// preformatted is a line of a table or a link, which cannot be wrapped.
var preformatted = regexp.MustCompile(`^\s*//  |://`)

// TestComments keeps comments of the product short and about nouns of the field.
func TestComments(t *testing.T) {
	words, hits := 0, map[string]int{}
	sum := 0
	for _, files := range sources(t) {
		for _, s := range files {
			if s.isTest() || ast.IsGenerated(s.file) {
				continue
			}
			src, err := os.ReadFile(s.path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(src), "\n")
			for _, group := range s.file.Comments {
				for _, c := range group.List {
					words += len(strings.Fields(c.Text))
					n := len(vague.FindAllString(c.Text, -1))
					hits[s.path] += n
					sum += n
					first := s.set.Position(c.Pos()).Line
					for i := range strings.Count(c.Text, "\n") + 1 {
						line := strings.ReplaceAll(lines[first+i-1], "\t", "    ")
						if n := len([]rune(line)); n > maxCommentColumns && !preformatted.MatchString(line) && !strings.Contains(line, "//nolint") {
							t.Errorf("%s:%d: a line with a comment has %d columns, want at most %d", s.path, first+i, n, maxCommentColumns)
						}
					}
				}
			}
		}
	}
	if share := 1000 * float64(sum) / float64(max(words, 1)); share > maxVaguePerMille {
		t.Errorf("%.1f of 1,000 words of comments are what, who or whose, want at most %.1f", share, maxVaguePerMille)
		for file, n := range hits {
			if n > 0 {
				t.Logf("%s: %d", file, n)
			}
		}
	}
}
