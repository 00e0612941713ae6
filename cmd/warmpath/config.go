package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/regularfile"
)

// A setting comes from a flag, the environment or the configuration file, in this order of
// precedence. All three use the flag's name: --probe-interval, WARMPATH_PROBE_INTERVAL,
// probe-interval.

const (
	// configFlag names the file. It cannot be in the file.
	configFlag = "config"
	// maxConfig bounds the file: 16,384 workers of 64 bytes.
	maxConfig = 1 << 20
)

// errConfig is an invalid configuration.
var errConfig = errors.New("bad configuration")

// origins holds the source of each setting, by flag; a missing flag has its default.
type origins map[string]string

// configFlags adds --config to a command; read says when the file is read again.
func configFlags(f *pflag.FlagSet, read string) {
	f.String(configFlag, "", "YAML file with any of these flags as keys, lists as lists; flags and WARMPATH_… in the environment take precedence; "+read)
}

// configure sets the flags that the command line leaves open from the environment and from the
// configuration file.
func configure(f *pflag.FlagSet, environ []string) (origins, error) {
	from := origins{}
	f.Visit(func(flag *pflag.Flag) { from[flag.Name] = "flag" })
	if err := setFromEnv(f, from, environ); err != nil {
		return nil, err
	}
	path := f.Lookup(configFlag).Value.String()
	if path == "" {
		return from, nil
	}
	data, err := regularfile.Read(path, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read --%s: %w", errConfig, configFlag, err)
	}
	settings, err := parseConfig(data)
	if err == nil {
		err = setFromFile(f, from, settings, path)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w: %w", path, errConfig, err)
	}
	return from, nil
}

// checkZeros refuses a zero that serve would take for a default other than zero.
func checkZeros(f *pflag.FlagSet) (err error) {
	f.VisitAll(func(flag *pflag.Flag) {
		switch _, own := flag.Value.(*retries); {
		case own, !flag.Changed, !isZero(flag), slices.Contains([]string{"", "0", "0s"}, flag.DefValue):
		case slices.Contains([]string{"int", "int64", "duration"}, flag.Value.Type()):
			err = errors.Join(err, fmt.Errorf("cannot use --%s 0: leave it out for the default, %s%s", flag.Name, flag.DefValue, none(flag)))
		}
	})
	return err
}

// none returns how a setting is switched off.
func none(flag *pflag.Flag) string {
	if strings.Contains(flag.Usage, "-1: ") {
		return "; -1 means none"
	}
	return ""
}

// setting is one key of a file.
type setting struct {
	name   string
	line   int
	values []string
	lines  []int // of the values
	list   bool
}

// parseConfig reads a map of scalars and of lists of scalars. Errors begin with the line.
func parseConfig(data []byte) (all []setting, err error) {
	if len(bytes.TrimSpace(data)) == 0 { // as a file is for a moment that someone is writing
		return nil, errors.New("line 1: nothing is there: write {} where no setting is meant")
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, discover.YAMLError(err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: want keys and values, such as listen: 127.0.0.1:8000", top.Line)
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if before, twice := lines[key.Value]; twice {
			return nil, fmt.Errorf("line %d: %s is in line %d already", key.Line, key.Value, before)
		}
		lines[key.Value] = key.Line
		s := setting{name: key.Value, line: key.Line, list: value.Kind == yaml.SequenceNode}
		nodes := []*yaml.Node{value}
		if s.list {
			nodes = value.Content
		}
		for _, n := range nodes {
			if n.Kind == yaml.AliasNode {
				n = n.Alias
			}
			if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
				return nil, fmt.Errorf("line %d: %s: want a value, or a list of values", n.Line, key.Value)
			}
			s.values, s.lines = append(s.values, n.Value), append(s.lines, n.Line)
		}
		all = append(all, s)
	}
	return all, nil
}

// setFromFile sets all that neither flags nor the environment did, and checks all of it.
func setFromFile(f *pflag.FlagSet, from origins, settings []setting, path string) error {
	var errs []error
	for _, s := range settings {
		flag := f.Lookup(s.name)
		if flag == nil || notSetting(s.name) {
			errs = append(errs, fmt.Errorf("line %d: there is no setting %q%s", s.line, s.name, meant(f, s.name)))
			continue
		}
		if from[s.name] != "" {
			if err := tryValues(f, s); err != nil {
				errs = append(errs, err)
			}
			continue
		}
		if err := setValues(flag, s); err != nil {
			errs = append(errs, err)
			continue
		}
		from[s.name] = fmt.Sprintf("%s:%d", path, s.line)
	}
	return errors.Join(errs...)
}

// setValues gives a flag its values. It is not marked as changed: commands ask that of the command
// line.
func setValues(flag *pflag.Flag, s setting) error {
	many, isList := flag.Value.(pflag.SliceValue)
	if isList {
		if err := many.Replace(s.values); err != nil {
			return fmt.Errorf("line %d: cannot use %s: %w", s.line, s.name, err)
		}
		return nil
	}
	if s.list {
		return fmt.Errorf("line %d: %s takes one value, not a list", s.line, s.name)
	}
	if err := flag.Value.Set(s.values[0]); err != nil {
		return fmt.Errorf("line %d: cannot use %s %q: %w", s.lines[0], s.name, s.values[0], wanted(flag, err))
	}
	return nil
}

// tryValues checks values that do not count, so that a mistake is found before it does.
func tryValues(f *pflag.FlagSet, s setting) error {
	flag := f.Lookup(s.name)
	if many, isList := flag.Value.(pflag.SliceValue); isList {
		kept := many.GetSlice()
		return errors.Join(setValues(flag, s), many.Replace(kept))
	}
	kept := flag.Value.String()
	err := setValues(flag, s)
	if back := flag.Value.Set(kept); err == nil && kept != "" {
		return back
	}
	return err
}

// envName is a flag's name in the environment.
func envName(flag string) string {
	return "WARMPATH_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// listEnds says where an entry of a list ends in the environment: at each comma, but for lists
// whose entries have commas.
var listEnds = map[string]*regexp.Regexp{
	"worker": regexp.MustCompile(`,\s*(https?://)`), "prefill": regexp.MustCompile(`,\s*(https?://)`), "decode": regexp.MustCompile(`,\s*(https?://)`),
	"discover": regexp.MustCompile(`,\s*((?:file|dns-srv|etcd|kubernetes|k8s):)`),
}

// splitList reads a list from the environment: entries end with a comma or a line.
func splitList(flag, text string) (entries []string) {
	if ends := listEnds[flag]; ends != nil {
		text = ends.ReplaceAllString(text, "\n$1")
	} else {
		text = strings.ReplaceAll(text, ",", "\n")
	}
	for entry := range strings.Lines(text) {
		if entry = strings.TrimSpace(entry); entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// setFromEnv sets the rest. Variables without a flag are nobody's fault: Kubernetes makes
// some for a service that is named warmpath.
func setFromEnv(f *pflag.FlagSet, from origins, environ []string) error {
	var errs []error
	f.VisitAll(func(flag *pflag.Flag) {
		name := envName(flag.Name)
		i := slices.IndexFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if i < 0 || from[flag.Name] != "" || flag.Name == "help" || flag.Name == helpAllFlag {
			return
		}
		text := environ[i][len(name)+1:]
		var err error
		if many, isList := flag.Value.(pflag.SliceValue); isList {
			err = many.Replace(splitList(flag.Name, text))
		} else {
			err = flag.Value.Set(text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot use %s=%s: %w: %w", name, masked(flag.Name, text), errConfig, wanted(flag, err)))
			return
		}
		from[flag.Name] = name
	})
	return errors.Join(errs...)
}
