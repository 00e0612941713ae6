package discover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/secrets"
)

// Source knows workers.
type Source interface {
	// Name identifies the source in logs and in /status.
	Name() string
	// Run delivers the source's whole set at every change until ctx ends. On failures of its
	// server it delivers none and retries. An error is final, and the last set stays.
	Run(ctx context.Context, set func([]worker.Spec)) error
}

// Troubled is a source that reports whether its server answers.
type Troubled interface {
	// Trouble returns why the source has no news now; nil: it works.
	Trouble() error
}

// ErrSource is a source that cannot be understood.
var ErrSource = errors.New("discover: bad source")

// Static is a set that never changes.
type Static struct {
	Title string
	Specs []worker.Spec
}

var _ Source = Static{}

// Name implements Source.
func (s Static) Name() string { return s.Title }

// Run implements Source.
func (s Static) Run(ctx context.Context, set func([]worker.Spec)) error {
	set(slices.Clone(s.Specs))
	<-ctx.Done()
	return nil
}

// sourceKinds make sources of the text after KIND: and of the options.
var sourceKinds = map[string]func(rest string, o *options, r *report) (Source, error){
	"file": newFile, "dns-srv": newDNS, "etcd": newEtcd, "kubernetes": newKube, "k8s": newKube,
}

// Kinds names the kinds of sources that Parse knows.
func Kinds() []string { return []string{"file", "dns-srv", "etcd", "kubernetes"} }

// Parse reads "KIND:…"; see the package's documentation. log receives each kind of trouble once.
func Parse(text string, log *slog.Logger) (Source, error) {
	kind, rest, found := strings.Cut(text, ":")
	create := sourceKinds[kind]
	if !found || create == nil {
		return nil, badSource(text, "want one of "+strings.Join(Kinds(), ":…, ")+":…")
	}
	rest, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, badSource(text, "want options as ?name=value&name=value")
	}
	o := &options{values: values}
	s, err := create(rest, o, &report{name: secrets.MaskURL(text), log: log})
	if err == nil {
		err = o.rest()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot discover workers by %q: %w: %w", secrets.MaskURL(text), ErrSource, err)
	}
	return s, nil
}

// badSource is an error for an unusable source, with the expected form.
func badSource(text, want string) error {
	return fmt.Errorf("cannot discover workers by %q: %w: %s", secrets.MaskURL(text), ErrSource, want)
}

// options are the text after the question mark.
type options struct {
	values url.Values
	known  []string
}

// take returns an option, or other where it is not given.
func (o *options) take(name, other string) string {
	o.known = append(o.known, name)
	if !o.values.Has(name) {
		return other
	}
	v := o.values.Get(name)
	o.values.Del(name)
	return v
}

// rest refuses unused options.
func (o *options) rest() error {
	for name := range o.values {
		if len(o.known) == 0 {
			return fmt.Errorf("there is no option %q, nor any other", name)
		}
		return fmt.Errorf("there is no option %q: want %s", name, strings.Join(o.known, ", "))
	}
	return nil
}

// scheme takes the option for workers that are only known by host and port.
func (o *options) scheme() (string, error) {
	s := o.take("scheme", "http")
	if s != "http" && s != "https" {
		return "", fmt.Errorf("cannot use scheme %q: want http or https", s)
	}
	return s, nil
}
