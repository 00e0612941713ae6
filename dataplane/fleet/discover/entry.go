package discover

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/secrets"
)

// ErrEntry is an entry that is no worker.
var ErrEntry = errors.New("discover: bad entry")

// maxEntries bounds one source: 1,000 workers are a large cluster.
const maxEntries = 16 << 10

// ParseEntries reads workers. Either each line has one, with # before comments:
//
//	URL [ROLE [BOOTSTRAP]]
//
// or the text is YAML or JSON: one map, a list of such lines or of maps, or a map with the list
// as workers:
//
//	workers:
//	  - http://gpu1:30000
//	  - {url: http://gpu2:30000, role: prefill, bootstrap: 8998}
//	  - {url: http://gpu3:30000, role: decode, drain: true}
//
// ROLE is regular, prefill or decode, BOOTSTRAP a port or HOST:PORT. Errors name the line of
// each bad entry. Empty text is an error, because the file may just be written: an empty list is
// [].
func ParseEntries(data []byte) ([]worker.Spec, error) {
	all, err := readEntries(data)
	if err != nil {
		return nil, err
	}
	specs, err := usable(all, nil)
	if err != nil {
		return nil, err
	}
	return specs, nil
}

// entry is a worker, or why it is none. Of a bad entry the URL counts, if it has one.
type entry struct {
	spec worker.Spec
	bad  error
}

// readEntries reads the entries of a text. An error is text without entries.
func readEntries(data []byte) (all []entry, err error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errNothing
	}
	if isYAML(data) {
		all, err = parseYAML(data)
	} else {
		all = parseLines(data)
	}
	if err != nil {
		return nil, err
	}
	if len(all) > maxEntries {
		return nil, fmt.Errorf("%w: %d of them: want at most %d", ErrEntry, len(all), maxEntries)
	}
	return all, nil
}

// usable returns the workers of entries. A bad entry leaves the worker that last has by its URL;
// where all are bad, all of last stays.
func usable(all []entry, last []worker.Spec) (specs []worker.Spec, bad error) {
	var faults faults
	there, wanted := map[string]bool{}, map[string]bool{}
	for _, e := range all {
		if e.bad == nil {
			specs = append(specs, e.spec)
			there[e.spec.URL] = true
			continue
		}
		faults.add(e.bad)
		if spec, err := (worker.Spec{URL: e.spec.URL}).Normal(); err == nil {
			wanted[spec.URL] = true
		}
	}
	bad = faults.err()
	lost := len(specs) == 0 && bad != nil
	for _, spec := range last {
		if !there[spec.URL] && (lost || wanted[spec.URL]) {
			specs = append(specs, spec)
		}
	}
	return specs, bad
}

var errNothing = fmt.Errorf("%w: nothing is there: write [] where no worker is meant", ErrEntry)

// isYAML decides by the first line that is neither empty nor a comment.
func isYAML(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, _, _ := strings.Cut(string(line), ":")
		return bytes.ContainsAny(line[:1], "-[{%") || key == "workers" || slices.Contains(fields, key)
	}
	return false
}

func parseLines(data []byte) (all []entry) {
	first := map[string]int{}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		spec, err := parseLine(line)
		if err != nil {
			err = at(n, err)
		}
		all = append(all, once(first, entry{spec, err}, n))
	}
	return all
}

// parseLine reads "URL [ROLE [BOOTSTRAP]]".
func parseLine(line string) (worker.Spec, error) {
	f := strings.Fields(line)
	if len(f) == 0 || len(f) > 3 {
		return worker.Spec{URL: strings.Join(f[:min(len(f), 1)], "")}, fmt.Errorf("want URL [ROLE [BOOTSTRAP]], not %q", secrets.MaskURL(strings.TrimSpace(line)))
	}
	f = append(f, "", "")
	return newSpec(f[0], f[1], f[2])
}

// newSpec makes a spec of its words.
func newSpec(url, role, bootstrap string) (s worker.Spec, err error) {
	s.URL = url
	if s.Role, err = worker.ParseRole(role); err != nil {
		return s, err
	}
	if bootstrap != "" {
		if s.Role != worker.RolePrefill {
			return s, errors.New("bootstrap is for prefill workers only: set role to prefill")
		}
		if s.Bootstrap, err = parseBootstrap(bootstrap); err != nil {
			return s, err
		}
	}
	return s.Normal()
}

// parseBootstrap reads PORT or HOST:PORT.
func parseBootstrap(text string) (b worker.Bootstrap, err error) {
	port := text
	if strings.Contains(text, ":") {
		if b.Host, port, err = net.SplitHostPort(text); err != nil || b.Host == "" {
			return b, fmt.Errorf("cannot use bootstrap %q: want PORT or HOST:PORT", secrets.MaskURL(text))
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return b, fmt.Errorf("cannot use bootstrap %q: want a port from 1 to 65535, or HOST:PORT", secrets.MaskURL(text))
	}
	b.Port = int(n)
	return b, nil
}

func at(line int, err error) error { return fmt.Errorf("line %d: %w: %w", line, ErrEntry, err) }

// once refuses a second entry for one worker.
func once(first map[string]int, e entry, line int) entry {
	if e.bad != nil {
		return e
	}
	if before, twice := first[e.spec.URL]; twice {
		e.bad = at(line, fmt.Errorf("%s is in line %d already", e.spec.URL, before))
		return e
	}
	first[e.spec.URL] = line
	return e
}

func parseYAML(data []byte) ([]entry, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, YAMLError(err))
	}
	if len(doc.Content) == 0 {
		return nil, errNothing
	}
	list := doc.Content[0]
	if list.Kind == yaml.MappingNode {
		if len(list.Content) != 2 || list.Content[0].Value != "workers" {
			spec, err := parseNode(list)
			return []entry{{spec, err}}, nil
		}
		list = list.Content[1]
	}
	if list.Kind != yaml.SequenceNode {
		return nil, at(list.Line, errors.New("want a list of workers"))
	}
	first := map[string]int{}
	all := make([]entry, 0, len(list.Content))
	for _, n := range list.Content {
		spec, err := parseNode(n)
		all = append(all, once(first, entry{spec, err}, n.Line))
	}
	return all, nil
}

// YAMLError has an error of the YAML package name its line, the first one too.
func YAMLError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if !strings.Contains(text, "line ") {
		text = "line 1: " + text
	}
	return errors.New(text)
}

// fields are the keys of an entry.
var fields = []string{"url", "role", "bootstrap", "drain"}

// parseNode reads one entry.
func parseNode(n *yaml.Node) (worker.Spec, error) {
	if n.Kind == yaml.ScalarNode {
		spec, err := parseLine(n.Value)
		if err != nil {
			return spec, at(n.Line, err)
		}
		return spec, nil
	}
	if n.Kind != yaml.MappingNode {
		return worker.Spec{}, at(n.Line, errors.New("want a URL or a map with url"))
	}
	values, err := parseFields(n)
	if err != nil {
		return worker.Spec{URL: values["url"]}, err
	}
	spec, err := newSpec(values["url"], values["role"], values["bootstrap"])
	if drain, given := values["drain"]; err == nil && given {
		spec.Drain, err = strconv.ParseBool(drain)
	}
	if err != nil {
		return spec, at(n.Line, err)
	}
	return spec, nil
}

// parseFields reads the fields of a map. After an error the good ones count.
func parseFields(n *yaml.Node) (values map[string]string, bad error) {
	values = map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		var err error
		switch _, twice := values[key.Value]; {
		case !slices.Contains(fields, key.Value):
			err = at(key.Line, fmt.Errorf("there is no field %q: want %s", key.Value, strings.Join(fields, ", ")))
		case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
			err = at(value.Line, fmt.Errorf("%s has no value, or more than one", key.Value))
		case twice:
			err = at(key.Line, fmt.Errorf("%s is there twice", key.Value))
		default:
			values[key.Value] = value.Value
		}
		bad = cmp.Or(bad, err)
	}
	return values, bad
}
