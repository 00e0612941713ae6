package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// markRecord is a mark as it lies in its bucket, under its escaped target.
type markRecord struct {
	Version int `json:"v"`
	Mark
}

func decodeMark(k string, data []byte) (Mark, error) {
	var r markRecord
	if err := checkVersion(data); err != nil {
		return r.Mark, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r.Mark, fmt.Errorf("%w: mark: %w", errMalformed, err)
	}
	if err := checkName(r.Target); err != nil {
		return r.Mark, err
	}
	if escape(r.Target) != k {
		return r.Mark, fmt.Errorf("%w: mark of %.64q under %q", errMalformed, r.Target, k)
	}
	return r.Mark, nil
}

func encodeMark(m Mark) ([]byte, error) { return json.Marshal(markRecord{version, m}) }

// Mark sets what an operator wants of a node or a worker, in place of what was set before. It returns when NATS has it.
func (c *Cluster) Mark(ctx context.Context, m Mark) error {
	if err := checkName(m.Target); err != nil {
		return fmt.Errorf("cannot mark %.64q: %w: %w", m.Target, ErrRecord, err)
	}
	if m.At.IsZero() {
		m.At = time.Now().UTC()
	}
	data, err := encodeMark(m)
	if err != nil {
		return fmt.Errorf("cannot mark %s: %w: %w", m.Target, ErrRecord, err)
	}
	return c.marking(ctx, m.Target, func(ctx context.Context, b *buckets) error {
		_, err := b.marks.Put(ctx, escape(m.Target), data)
		return err
	})
}

// Unmark takes a target's mark back; one that has none stays as it is.
func (c *Cluster) Unmark(ctx context.Context, target string) error {
	if err := checkName(target); err != nil {
		return fmt.Errorf("cannot unmark %.64q: %w: %w", target, ErrRecord, err)
	}
	return c.marking(ctx, target, func(ctx context.Context, b *buckets) error { return b.marks.Delete(ctx, escape(target)) })
}

func (c *Cluster) marking(ctx context.Context, target string, do func(context.Context, *buckets) error) error {
	b := c.buckets.Load()
	if b == nil || !c.hearing.Load() {
		return fmt.Errorf("cannot change the mark of %s: %w: %s", target, ErrDown, c.Status().Reason)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := do(ctx, b); err != nil {
		c.doubt.raise() // the bucket may be gone
		return fmt.Errorf("cannot change the mark of %s: %w", target, err)
	}
	return nil
}

// marks are those that are known, with what a new snapshot of their bucket says of them.
type marks struct {
	list    map[string]Mark
	seen    map[string]bool // targets in the snapshot that is being read, deleted ones too
	lost    map[string]bool // targets whose marks are to be written again: their store was lost
	created time.Time       // of the bucket that list came from
	last    uint64          // revision that the bucket had at least
	fresh   bool            // the bucket that is being read is another one, or an older state of it: marks were lost
}

// begin notes that a snapshot follows, of the bucket made at created whose last revision is last or higher.
func (t *marks) begin(created time.Time, last uint64) {
	t.fresh = !t.created.IsZero() && (!t.created.Equal(created) || last < t.last)
	t.created, t.last, t.seen = created, last, map[string]bool{}
}

func (t *marks) set(m Mark) {
	delete(t.lost, m.Target)
	t.list[m.Target] = m
	if t.seen != nil {
		t.seen[m.Target] = true
	}
}

func (t *marks) remove(target string) {
	delete(t.lost, target)
	delete(t.list, target)
	if t.seen != nil {
		t.seen[target] = true
	}
}

// end notes that the snapshot is over. Marks that a lost store had are kept, to be written again: marks have no owner, so every
// process that knew them puts them back.
func (t *marks) end() {
	for target := range t.list {
		switch {
		case t.seen[target]:
		case t.fresh, t.lost[target]:
			t.lost[target] = true
		default:
			delete(t.list, target)
		}
	}
	t.seen = nil
}

// unsaved returns the marks to be written again.
func (t *marks) unsaved() (list []Mark) {
	for target := range t.lost {
		list = append(list, t.list[target])
	}
	return list
}
