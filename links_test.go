package warmpath_test

import (
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	fencedCode   = regexp.MustCompile("(?ms)^ *(```+|~~~+)[^\n]*\n.*?^ *(```+|~~~+) *$")
	quotedCode   = regexp.MustCompile("`[^`\n]*`")
	markdownLink = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)|(?m)^\[[^\]]+\]:\s*(\S+)|(?:href|src)="([^"]+)"`)
	headingLine  = regexp.MustCompile(`(?m)^#{1,6}\s+(.*?)\s*#*\s*$`)
	namedAnchor  = regexp.MustCompile(`<a\s+(?:id|name)="([^"]+)"`)
	linkText     = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	external     = regexp.MustCompile(`^(?:[a-z][a-z+.-]*:|//)`)
)

// anchorsOf returns the anchors of a page as GitHub makes them of its headings: in lower case, with
// hyphens for blanks and without punctuation; the second of a name gets -1.
func anchorsOf(page string) map[string]bool {
	anchors, count := map[string]bool{}, map[string]int{}
	page = fencedCode.ReplaceAllString(page, "")
	for _, m := range headingLine.FindAllStringSubmatch(page, -1) {
		var b strings.Builder
		text := strings.NewReplacer("`", "", "*", "").Replace(linkText.ReplaceAllString(m[1], "$1"))
		for _, r := range strings.ToLower(text) {
			switch {
			case r == ' ':
				b.WriteByte('-')
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
				b.WriteRune(r)
			}
		}
		name := b.String()
		if n := count[name]; n > 0 {
			anchors[fmt.Sprintf("%s-%d", name, n)] = true
		} else {
			anchors[name] = true
		}
		count[name]++
	}
	for _, m := range namedAnchor.FindAllStringSubmatch(page, -1) {
		anchors[m[1]] = true
	}
	return anchors
}

// linksOf returns the targets of a page's links, without those in code.
func linksOf(page string) (links []string) {
	page = quotedCode.ReplaceAllString(fencedCode.ReplaceAllString(page, ""), "`x`")
	for _, m := range markdownLink.FindAllStringSubmatch(page, -1) {
		links = append(links, m[1]+m[2]+m[3])
	}
	return links
}

// brokenLink says what is wrong with a relative link; "" is nothing.
func brokenLink(from, link string, files, folders map[string]bool, anchors func(string) map[string]bool) string {
	if external.MatchString(link) {
		return ""
	}
	target, anchor, _ := strings.Cut(link, "#")
	to := from
	if target != "" {
		to = path.Join(path.Dir(from), target)
	}
	switch {
	case strings.HasPrefix(target, "/"):
		return "begins at the root of the server"
	case !files[to] && !folders[to]:
		return "leads to " + to + ", which does not exist"
	case anchor != "" && path.Ext(to) == ".md" && !anchors(to)[anchor]:
		return fmt.Sprintf("leads to a heading that %s does not have: it has %q", to, slices.Sorted(maps.Keys(anchors(to))))
	}
	return ""
}

// TestLinks follows every relative link of all Markdown pages to its file and heading.
func TestLinks(t *testing.T) {
	names, err := committed()
	if err != nil {
		t.Fatal(err)
	}
	files, folders, pages := map[string]bool{}, map[string]bool{".": true}, map[string]string{}
	for _, name := range names {
		files[name] = true
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			folders[dir] = true
		}
		if path.Ext(name) == ".md" {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			pages[name] = string(text)
		}
	}
	known, links := map[string]map[string]bool{}, 0
	anchors := func(name string) map[string]bool {
		if known[name] == nil {
			known[name] = anchorsOf(pages[name])
		}
		return known[name]
	}
	for name, page := range pages {
		for _, link := range linksOf(page) {
			links++
			if fault := brokenLink(name, link, files, folders, anchors); fault != "" {
				t.Errorf("%s: the link %s %s", name, link, fault)
			}
		}
	}
	if len(pages) < 30 || links < 100 {
		t.Errorf("found %d links on %d pages: are the patterns still right?", links, len(pages))
	}
}

func TestBrokenLink(t *testing.T) {
	page := "# One `two` & three\n## Same\n## Same\n[a](b.md#x)\n`[no](code.md)`\n```\n# none\n[no](code.md)\n```\n<a id=\"own\"></a> [c]: d.md\n[c]: e.md\n<img src=\"f.svg\">"
	anchors := anchorsOf(page)
	if want := []string{"one-two--three", "own", "same", "same-1"}; !slices.Equal(slices.Sorted(maps.Keys(anchors)), want) {
		t.Errorf("anchorsOf = %q, want %q", slices.Sorted(maps.Keys(anchors)), want)
	}
	if got, want := linksOf(page), []string{"b.md#x", "e.md", "f.svg"}; !slices.Equal(got, want) {
		t.Errorf("linksOf = %q, want %q", got, want)
	}
	files, folders := map[string]bool{"docs/a.md": true, "b.md": true}, map[string]bool{"docs": true}
	for link, ok := range map[string]bool{
		"../b.md": true, "a.md#same": true, "#own": true, "https://example.com/x#y": true, "../docs": true, "mailto:a@b": true,
		"b.md": false, "../b.md#none": false, "#none": false, "/b.md": false,
	} {
		fault := brokenLink("docs/a.md", link, files, folders, func(name string) map[string]bool {
			if name == "docs/a.md" {
				return anchors
			}
			return map[string]bool{}
		})
		if (fault == "") != ok {
			t.Errorf("the link %s is found to be broken by %q", link, fault)
		}
	}
}

// TestReadme: the first page is read in five minutes. Each of its numbers has its raw result.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(text))); n >= 1500 {
		t.Errorf("README.md has %d words, want fewer than 1,500: the rest belongs to docs", n)
	}
	_, numbers, _ := strings.Cut(string(text), "\n## Numbers\n")
	numbers, _, _ = strings.Cut(numbers, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| .*\|$`).FindAllString(numbers, -1)
	if len(rows) < 3 || len(rows) > 2+10 {
		t.Fatalf("the table of numbers has %d lines, want at most ten below its head", len(rows)-2)
	}
	for _, row := range rows[2:] {
		if !strings.Contains(row, "](bench/results/") {
			t.Errorf("a number without its raw result: %s", row)
		}
	}
}

// TestSite: the site of `make docs` has every page of docs in its navigation.
func TestSite(t *testing.T) {
	site, err := os.ReadFile("mkdocs.yml")
	if err != nil {
		t.Fatal(err)
	}
	names, err := committed()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		page, ours := strings.CutPrefix(name, "docs/")
		if ours && path.Ext(page) == ".md" && !strings.Contains(string(site), ": "+page+"\n") {
			t.Errorf("mkdocs.yml does not have the page %s", page)
		}
	}
}
