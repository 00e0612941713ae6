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

// Mark sets the drain and cordon of a node or a worker, in place of the ones before. It returns
// when NATS has them.
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
		_, err := b.marks.put(ctx, escape(m.Target), data)
		return err
	})
}

// Unmark removes a target's mark, if it has one.
func (c *Cluster) Unmark(ctx context.Context, target string) error {
	if err := checkName(target); err != nil {
		return fmt.Errorf("cannot unmark %.64q: %w: %w", target, ErrRecord, err)
	}
	return c.marking(ctx, target, func(ctx context.Context, b *buckets) error { return b.marks.remove(ctx, escape(target), 0) })
}

func (c *Cluster) marking(ctx context.Context, target string, do func(context.Context, *buckets) error) error {
	if !c.holder.marks() {
		return fmt.Errorf("cannot change the mark of %s: %w: it is that of a node, and an operator's is needed", target, ErrDenied)
	}
	b := c.buckets.Load()
	if b == nil || !c.hearing.Load() {
		return fmt.Errorf("cannot change the mark of %s: %w: %s", target, ErrDown, c.Status().Reason)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := do(ctx, b); err != nil {
		c.compare.raise() // the bucket may be gone
		return fmt.Errorf("cannot change the mark of %s: %w", target, away(err, c.hearing.Load()))
	}
	return nil
}

// markSet are the known drain and cordon marks, with the state of a snapshot of their bucket.
type markSet struct {
	list    map[string]Mark
	seen    map[string]bool // targets in the snapshot that is being read, deleted ones too
	lost    map[string]bool // targets with marks to write again: their store was lost
	created time.Time       // of the bucket that list came from
	last    uint64          // revision that the bucket had at least
	fresh   bool            // the bucket is another one, or an older state of it: marks were lost
}

// begin starts a snapshot of the bucket made at created, with last or a higher one as its last
// revision.
func (t *markSet) begin(created time.Time, last uint64) {
	t.fresh = !t.created.IsZero() && (!t.created.Equal(created) || last < t.last)
	t.created, t.last, t.seen = created, last, map[string]bool{}
}

func (t *markSet) set(m Mark) {
	delete(t.lost, m.Target)
	t.list[m.Target] = m
	if t.seen != nil {
		t.seen[m.Target] = true
	}
}

// keep keeps the known mark of a target that has one of a later release by now.
func (t *markSet) keep(target string) {
	delete(t.lost, target)
	if t.seen != nil {
		t.seen[target] = true
	}
}

func (t *markSet) remove(target string) {
	delete(t.lost, target)
	delete(t.list, target)
	if t.seen != nil {
		t.seen[target] = true
	}
}

// end ends the snapshot. Marks of a lost store are kept and written again: marks have no owner,
// so every process that knew them restores them.
func (t *markSet) end() {
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
func (t *markSet) unsaved() (list []Mark) {
	for target := range t.lost {
		list = append(list, t.list[target])
	}
	return list
}
