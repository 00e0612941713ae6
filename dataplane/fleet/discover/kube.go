package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// kube follows the EndpointSlices of a service.
type kube struct {
	*report
	api       kubeAPI
	namespace string // "": that of our own pod
	selector  string // of labels of slices
	port      string // name; "": http, or the only one
	bootstrap string // name of the port of bootstrap servers
	role      string // "": by roleLabel
	roleLabel string
	scheme    string // "": by the port's appProtocol
	kept      map[string]keptSlice
}

// keptSlice is what a slice said last that could be used.
type keptSlice struct {
	terms
	specs []worker.Spec
}

// terms hold for all endpoints of a slice.
type terms struct {
	role            worker.Role
	scheme          string
	port, bootstrap int
}

var (
	_ Source   = (*kube)(nil)
	_ Troubled = (*kube)(nil)
)

// newKube reads "[NAMESPACE/]SERVICE", or "NAMESPACE/" with a selector, and the options
// selector, port, bootstrap-port, role, role-label, scheme, api, ca, token-file.
func newKube(rest string, o *options, r *report) (Source, error) {
	k := &kube{report: r, kept: make(map[string]keptSlice)}
	service := rest
	if namespace, name, found := strings.Cut(rest, "/"); found {
		k.namespace, service = namespace, name
	}
	k.selector = o.take("selector", "")
	switch {
	case service == "" && k.selector == "", strings.Contains(service, "/"):
		return nil, errors.New("want kubernetes:[NAMESPACE/]SERVICE, or kubernetes:NAMESPACE/?selector=LABEL%3DVALUE")
	case service != "" && k.selector != "":
		return nil, errors.New("want a service or a selector, not both")
	case service != "":
		k.selector = serviceLabel + "=" + service
	}
	k.port, k.bootstrap = o.take("port", ""), o.take("bootstrap-port", "bootstrap")
	k.roleLabel = o.take("role-label", "warmpath.io/role")
	if k.role = o.take("role", ""); k.role != "" {
		if _, err := worker.ParseRole(k.role); err != nil {
			return nil, err
		}
	}
	if k.scheme = o.take("scheme", ""); k.scheme != "" && k.scheme != "http" && k.scheme != "https" {
		return nil, fmt.Errorf("cannot use scheme %q: want http or https", k.scheme)
	}
	var err error
	k.api, err = newKubeAPI(o.take("api", ""), o.take("ca", ""), o.take("token-file", ""))
	return k, err
}

// Run implements Source. While the API server is away the last set stays; then all slices are
// read again.
func (k *kube) Run(ctx context.Context, set func([]worker.Spec)) error {
	var wait patience
	for {
		began := time.Now()
		client, err := k.api.client() // anew, because authorities change
		if err == nil {
			err = k.follow(ctx, client, func(slices map[string]*endpointSlice) error {
				specs, bad := k.specs(slices)
				if err := tooMany(max(len(specs), len(slices))); err != nil {
					return err
				}
				k.fail(bad)
				set(specs)
				return nil
			})
			client.CloseIdleConnections()
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the source was told to end
		}
		var refused refusedError
		if err != nil && !errors.Is(err, errGone) { // after which all is read again
			errors.As(err, &refused)
			k.fail(err)
		}
		if !wait.wait(ctx.Done(), time.Since(began), refused.retryAfter, err) {
			return nil
		}
	}
}

// follow lists the slices and then watches them, until that fails. Watches that end normally are
// resumed. All is listed again after one that told nothing: a server sends a bookmark each minute,
// and some watches fall silent for good, however often they are resumed.
func (k *kube) follow(ctx context.Context, client *kubeClient, changed func(map[string]*endpointSlice) error) error {
	namespace, err := k.api.namespace(k.namespace)
	if err != nil {
		return err
	}
	path := "/apis/discovery.k8s.io/v1/namespaces/" + url.PathEscape(namespace) + "/endpointslices"
	known, version, err := client.list(ctx, path, k.selector)
	if err != nil {
		return fmt.Errorf("cannot list EndpointSlices in %s: %w", namespace, err)
	}
	if err := changed(known); err != nil {
		return fmt.Errorf("cannot use the EndpointSlices in %s: %w", namespace, err)
	}
	for {
		began, before := time.Now(), version
		version, err = client.watch(ctx, path, k.selector, version, func(kind string, s *endpointSlice) error {
			if kind == "DELETED" {
				delete(known, s.Metadata.Name)
			} else {
				known[s.Metadata.Name] = s
			}
			return changed(known)
		})
		switch {
		case err != nil:
			return fmt.Errorf("cannot watch EndpointSlices in %s: %w", namespace, err)
		case time.Since(began) < patienceLeast:
			return nil // a server that hangs up on us is not asked again at once
		case version == before:
			return nil
		}
	}
}

// serviceLabel names the service of a slice.
const serviceLabel = "kubernetes.io/service-name"

// specs returns the workers of all slices, sorted. A worker in two slices, as while it moves,
// drains only if it does in both. Where no endpoint of a service is ready, the readiness probe is
// more likely at fault than all workers: then only terminating ones drain. A pod with an IPv4
// address is no second worker at its IPv6 one. Unusable endpoints are left out, and the error says
// why.
func (k *kube) specs(known map[string]*endpointSlice) (specs []worker.Spec, bad error) {
	byURL, faults := map[string]worker.Spec{}, faults{}
	// By service; four has its pods with IPv4.
	trusted, four := map[string]bool{}, map[string]map[targetRef]bool{}
	for _, s := range known {
		service := s.Metadata.Labels[serviceLabel]
		if trusted[service] = trusted[service] || s.anyReady(); four[service] == nil {
			four[service] = map[targetRef]bool{}
		}
		for _, e := range s.Endpoints {
			if s.AddressType == "IPv4" && e.TargetRef != (targetRef{}) {
				four[service][e.TargetRef] = true
			}
		}
	}
	maps.DeleteFunc(k.kept, func(name string, _ keptSlice) bool { return known[name] == nil })
	for _, name := range slices.Sorted(maps.Keys(known)) {
		s, service := known[name], known[name].Metadata.Labels[serviceLabel]
		if s.AddressType == "IPv6" {
			s = s.without(four[service])
		}
		of, err := k.sliceSpecs(s, trusted[service])
		if err != nil {
			faults.add(fmt.Errorf("cannot use EndpointSlice %s: %w", name, err))
		}
		for _, spec := range of {
			if before, twice := byURL[spec.URL]; twice {
				spec.Drain = spec.Drain && before.Drain
			}
			byURL[spec.URL] = spec
		}
	}
	return sorted(slices.Collect(maps.Values(byURL))), faults.err()
}

// sliceSpecs returns the workers of one slice. Terms that cannot be used, such as a role with a
// typing error, leave those that the slice had; a slice without a usable endpoint leaves its
// workers as they were. A mistake in one object takes no worker out of use.
func (k *kube) sliceSpecs(s *endpointSlice, trusted bool) ([]worker.Spec, error) {
	kept, before := k.kept[s.Metadata.Name]
	if s.unread != nil {
		return kept.specs, s.unread
	}
	if len(s.Endpoints) == 0 { // such a slice has no ports either
		if before {
			kept.specs = nil
			k.kept[s.Metadata.Name] = kept
		}
		return nil, nil
	}
	terms, bad := k.termsOf(s)
	if bad != nil {
		if !before {
			return nil, bad
		}
		terms = kept.terms
	}
	specs, unusable := terms.specs(s, trusted)
	if bad = errors.Join(bad, unusable); unusable != nil && len(specs) == 0 {
		return kept.specs, bad
	}
	k.kept[s.Metadata.Name] = keptSlice{terms, specs}
	return specs, bad
}

func (k *kube) termsOf(s *endpointSlice) (t terms, err error) {
	name := k.role
	if name == "" {
		name = s.Metadata.Labels[k.roleLabel] // slices have their service's labels
	}
	if t.role, err = worker.ParseRole(name); err != nil {
		return t, fmt.Errorf("its label %s: %w", k.roleLabel, err)
	}
	port, err := k.portOf(s)
	if err != nil {
		return t, err
	}
	t.port, t.scheme = port.Port, cmp.Or(k.scheme, "http")
	if k.scheme == "" && strings.EqualFold(port.AppProtocol, "https") {
		t.scheme = "https"
	}
	for _, p := range s.Ports {
		if p.Name != k.bootstrap || t.role != worker.RolePrefill {
			continue
		}
		if !isPort(p.Port) {
			return t, fmt.Errorf("its port %q is %d: want 1 to 65535", p.Name, p.Port)
		}
		t.bootstrap = p.Port
	}
	return t, nil
}

// specs returns the workers of a slice's usable endpoints.
func (t terms) specs(s *endpointSlice, trusted bool) (specs []worker.Spec, bad error) {
	var faults faults
	for i, e := range s.Endpoints {
		if len(e.Addresses) == 0 {
			continue
		}
		spec, err := worker.Spec{
			// Only the first address counts (API reference of discovery.k8s.io/v1).
			URL: t.scheme + "://" + net.JoinHostPort(e.Addresses[0], strconv.Itoa(t.port)), Role: t.role, Bootstrap: worker.Bootstrap{Port: t.bootstrap},
			// No word is a yes, for ready, and a no, for terminating (the same reference).
			Drain: (trusted && !isReady(e.Conditions.Ready)) || (e.Conditions.Terminating != nil && *e.Conditions.Terminating),
		}.Normal()
		if err != nil {
			faults.add(fmt.Errorf("its endpoint %d: %w", i, err))
			continue
		}
		specs = append(specs, spec)
	}
	return specs, faults.err()
}

// without returns the slice without the endpoints of these pods.
func (s *endpointSlice) without(pods map[targetRef]bool) *endpointSlice {
	rest := *s
	rest.Endpoints = slices.DeleteFunc(slices.Clone(s.Endpoints), func(e endpoint) bool { return pods[e.TargetRef] })
	return &rest
}

func isPort(n int) bool { return n > 0 && n <= 65535 }

func isReady(said *bool) bool { return said == nil || *said }

func (s *endpointSlice) anyReady() bool {
	for _, e := range s.Endpoints {
		if isReady(e.Conditions.Ready) {
			return true
		}
	}
	return false
}

// portOf finds the port that requests go to.
func (k *kube) portOf(s *endpointSlice) (endpointPort, error) {
	want := k.port
	if want == "" {
		want = "http"
	}
	var names []string
	for _, p := range s.Ports {
		if p.Name == want && isPort(p.Port) {
			return p, nil
		}
		names = append(names, strconv.Quote(p.Name))
	}
	if k.port == "" && len(s.Ports) == 1 && isPort(s.Ports[0].Port) {
		return s.Ports[0], nil
	}
	return endpointPort{}, fmt.Errorf("it has no port named %q but %s: choose one by ?port=NAME", want, strings.Join(names, ", "))
}
