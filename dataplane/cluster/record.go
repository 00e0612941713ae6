package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// version of records, marks and beats. Data of a higher version is skipped: it may mean
// anything.
const version = 1

// maxRecord bounds a record in bytes: a node of 16 workers and 16 GPUs with reasons has some 8
// KB, and NATS takes 1 MiB by default.
const maxRecord = 512 << 10

// maxName bounds names in bytes: as keys they grow threefold at most.
const maxName = 255

// Errors of data that other processes wrote.
var (
	errMalformed = errors.New("cluster: malformed record")
	errNewer     = errors.New("cluster: record of a newer version")
)

// record is the JSON in the bucket.
type record struct {
	Version  int     `json:"v"`
	Instance string  `json:"instance"` // of the process that wrote it
	Seq      uint64  `json:"seq"`      // counts the instance's writes from 1
	Node     *Node   `json:"node,omitempty"`
	Router   *Router `json:"replica,omitempty"`
}

// decodeRecord decodes the record under k. It shares no memory with data.
func decodeRecord(k key, data []byte) (*record, error) {
	if err := checkVersion(data); err != nil {
		return nil, err
	}
	r := &record{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if r.Instance == "" || len(r.Instance) > maxName || r.Seq == 0 {
		return nil, fmt.Errorf("%w: no instance or no sequence number", errMalformed)
	}
	switch {
	case k.kind == kindNode && r.Node != nil && r.Router == nil && r.Node.Name == k.name:
		return r, checkNode(r.Node)
	case k.kind == kindRouter && r.Router != nil && r.Node == nil && r.Router.ID == k.name:
		return r, checkRouter(r.Router)
	}
	return nil, fmt.Errorf("%w: it does not match its key %s", errMalformed, k)
}

// checkVersion refuses data of other versions before it is decoded.
func checkVersion(data []byte) error {
	var head struct {
		Version int `json:"v"`
	}
	if len(data) > maxRecord {
		return fmt.Errorf("%w: %d bytes, more than %d", errMalformed, len(data), maxRecord)
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	if head.Version > version {
		return fmt.Errorf("%w: %d, and this process knows %d", errNewer, head.Version, version)
	}
	if head.Version < 1 {
		return fmt.Errorf("%w: no version", errMalformed)
	}
	return nil
}

// checkName refuses names that would not survive a table, a log or a key.
func checkName(name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("%w: name %.64q: want 1 to %d bytes of text", errMalformed, name, maxName)
	}
	return nil
}

// checkRouter refuses records that could harm a reader.
func checkRouter(r *Router) error {
	if len(r.Workers) > MaxWorkers {
		return fmt.Errorf("%w: router with %d workers of its own, want at most %d", errMalformed, len(r.Workers), MaxWorkers)
	}
	for _, u := range r.Workers {
		if err := checkURL(u); err != nil {
			return err
		}
	}
	return checkName(r.ID)
}

// checkNode refuses records that could harm a reader.
func checkNode(n *Node) error {
	if err := checkName(n.Name); err != nil {
		return err
	}
	if len(n.Workers) > MaxWorkers {
		return fmt.Errorf("%w: node with %d workers, want at most %d", errMalformed, len(n.Workers), MaxWorkers)
	}
	for i := range n.Workers {
		w := &n.Workers[i]
		if err := checkWorker(w); err != nil {
			return err
		}
		if i > 0 && n.Workers[i-1].URL >= w.URL {
			return fmt.Errorf("%w: worker %s stands twice, or the workers are not in order", errMalformed, w.URL)
		}
	}
	for i := range n.GPUs {
		if err := checkHealth(&n.GPUs[i].Health); err != nil {
			return err
		}
	}
	if t := n.Tier; t != nil && min(t.Bytes, t.Used, t.Pages) < 0 {
		return fmt.Errorf("%w: a tier of a negative size", errMalformed)
	}
	if t := n.Tier; t != nil && !isSpeed(t.Speed) {
		return fmt.Errorf("%w: a tier of %g bytes a second", errMalformed, t.Speed)
	}
	for _, l := range n.Links {
		if !isSpeed(l.Read) || !isSpeed(l.Write) || l.Latency < 0 {
			return fmt.Errorf("%w: a link to %.64q that reads %g and writes %g bytes a second, in %g s", errMalformed, l.To, l.Read, l.Write, l.Latency)
		}
	}
	return nil
}

// maxSpeed is a hundred times that of a GPU's memory, in bytes a second.
const maxSpeed = 1e15

// isSpeed refuses speeds at which the time of a transfer has no number: 0 is unknown, and a byte a
// second slower than any.
func isSpeed(v float64) bool { return v == 0 || v >= 1 && v <= maxSpeed }

// minWeight is below all that a rule of health gives; a wait divided by it has a number.
const minWeight = 1e-6

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || checkName(text) != nil {
		return fmt.Errorf("%w: worker URL %.64q: want http://host:port", errMalformed, text)
	}
	return nil
}

func checkWorker(w *Worker) error {
	if err := checkURL(w.URL); err != nil {
		return err
	}
	if !isHost(w.BootstrapHost) {
		return fmt.Errorf("%w: worker %s has the bootstrap host %.64q", errMalformed, w.URL, w.BootstrapHost)
	}
	if w.BootstrapPort < 0 || w.BootstrapPort > math.MaxUint16 || w.TP < 0 || w.DP < 0 {
		return fmt.Errorf("%w: worker %s has a number that cannot be", errMalformed, w.URL)
	}
	return checkHealth(&w.Health)
}

// isHost refuses all but names, addresses and "": routers give them to engines.
func isHost(text string) bool {
	return len(text) <= maxName && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_:%", r)
	})
}

func checkHealth(h *Health) error {
	if h.Weight != 0 && (h.Weight < minWeight || h.Weight > 1) || h.Free < 0 {
		return fmt.Errorf("%w: health with weight %g and %d bytes free", errMalformed, h.Weight, h.Free)
	}
	return nil
}

// clone copies a node, so that its owner may go on changing his.
func (n *Node) clone() *Node {
	c := *n
	c.Workers, c.GPUs, c.Links = slices.Clone(n.Workers), slices.Clone(n.GPUs), slices.Clone(n.Links)
	for i := range c.Workers {
		w := &c.Workers[i]
		w.GPUs, w.Health.Reasons = slices.Clone(w.GPUs), slices.Clone(w.Health.Reasons)
	}
	for i := range c.GPUs {
		c.GPUs[i].Health.Reasons = slices.Clone(c.GPUs[i].Health.Reasons)
	}
	if n.Tier != nil {
		t := *n.Tier
		c.Tier = &t
	}
	return &c
}
