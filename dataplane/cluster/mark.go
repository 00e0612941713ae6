package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// ChangeMark changes the mark of a node or a worker, and returns when NATS has it. change gets the
// present mark, with nothing but its target where there is none; it runs again where another
// process was faster. A mark without drain and cordon is removed, and one with the same ones stays
// as it is.
func (c *Cluster) ChangeMark(ctx context.Context, target string, change func(*Mark)) error {
	if err := checkName(target); err != nil {
		return fmt.Errorf("cannot change the mark of %.64q: %w: %w", target, ErrRecord, err)
	}
	if !c.holder.marks() {
		return fmt.Errorf("cannot change the mark of %s: %w: it is that of a node, and an operator's is needed", target, ErrDenied)
	}
	b := c.buckets.Load()
	if b == nil || !c.hearing.Load() {
		return fmt.Errorf("cannot change the mark of %s: %w: %s", target, ErrDown, c.Status().Reason)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := errChanged
	for errors.Is(err, errChanged) && ctx.Err() == nil {
		news := c.next()
		v := c.View()
		m, revision := v.mark(target), v.revisions[target]
		before := m
		if change(&m); v.Up && m.Drain == before.Drain && m.Cordon == before.Cordon {
			return nil
		}
		if m.At.IsZero() {
			m.At = time.Now().UTC()
		}
		if err = b.setMark(ctx, m, revision); errors.Is(err, errChanged) {
			c.compare.raise() // or our state is that of another bucket
			select {
			case <-news:
			case <-ctx.Done():
			}
		}
	}
	if err != nil {
		c.compare.raise() // the bucket may be gone
		return fmt.Errorf("cannot change the mark of %s: %w", target, away(err, c.hearing.Load()))
	}
	return nil
}

// setMark puts a mark in the place of the one of a revision; 0: the bucket has none, and had none.
func (b *buckets) setMark(ctx context.Context, m Mark, revision uint64) error {
	at := escape(m.Target)
	if !m.Drain && !m.Cordon {
		return b.marks.remove(ctx, at, revision)
	}
	data, err := encodeMark(m)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if revision == 0 {
		return b.marks.create(ctx, at, data)
	}
	_, err = b.marks.put(ctx, at, data, revision)
	return err
}

// mark returns the mark of a target, with nothing but the target where there is none.
func (v *View) mark(target string) Mark {
	if i := slices.IndexFunc(v.Marks, func(m Mark) bool { return m.Target == target }); i >= 0 {
		return v.Marks[i]
	}
	return Mark{Target: target}
}

// markSet are the known drain and cordon marks, with the state of a snapshot of their bucket.
type markSet struct {
	list      map[string]Mark
	revisions map[string]uint64 // of what the bucket has for each target, deletions too
	loading   bool              // the snapshot is being read
	lost      map[string]bool   // targets with marks to write again: their store was lost
	created   time.Time         // of the bucket that list came from
	last      uint64            // revision that the bucket had at least
	// The bucket is another one, or an older state of it: marks were lost.
	fresh bool
}

func newMarkSet() markSet {
	return markSet{list: map[string]Mark{}, revisions: map[string]uint64{}, lost: map[string]bool{}}
}

// begin starts a snapshot of the bucket made at created, with last or a higher one as its last
// revision.
func (t *markSet) begin(created time.Time, last uint64) {
	t.fresh = !t.created.IsZero() && (!t.created.Equal(created) || last < t.last)
	t.created, t.last, t.loading, t.revisions = created, last, true, map[string]uint64{}
}

func (t *markSet) set(m Mark, revision uint64) {
	t.keep(m.Target, revision)
	t.list[m.Target] = m
}

// keep keeps the known mark of a target whose present one cannot be read.
func (t *markSet) keep(target string, revision uint64) {
	delete(t.lost, target)
	t.revisions[target] = revision
}

func (t *markSet) remove(target string, revision uint64) {
	t.keep(target, revision)
	delete(t.list, target)
}

// end ends the snapshot. Marks of a lost store are kept and written again: marks have no owner,
// so every process that knew them restores them.
func (t *markSet) end() {
	for target := range t.list {
		switch {
		case t.revisions[target] != 0:
		case t.fresh, t.lost[target]:
			t.lost[target] = true
		default:
			delete(t.list, target)
		}
	}
	t.loading = false
}

// unsaved returns the marks to be written again.
func (t *markSet) unsaved() (list []Mark) {
	for target := range t.lost {
		list = append(list, t.list[target])
	}
	return list
}
