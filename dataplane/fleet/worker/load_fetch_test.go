package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What prompts fetch needs room from dispatch to the end, whatever the rank reports meanwhile, and is no work.
func TestFetchedTokensNeedRoomOnly(t *testing.T) {
	var l Load
	now := time.Now()
	report := func(used int64) { l.Report(now, Report{Used: used, Pool: 10_000, Most: 8}) }
	used := func() int64 { return l.View(now).Used }
	report(1000)
	a := l.BeginWork(now, Work{Uncached: 10, Fetched: 500})
	assert.EqualValues(t, 1510, used())
	assert.EqualValues(t, 10, l.View(now).Pending)
	report(1000) // it waits for room, and the rank does not count it
	assert.EqualValues(t, 1500, used(), "of the 10 the rank tells itself, as of all that is to be computed")
	a.FirstByte()
	assert.EqualValues(t, 1500, used(), "until the rank tells")
	report(1510)
	assert.EqualValues(t, 1510, used())
	assert.EqualValues(t, 500, l.Reserved())
	a.End()
	report(0)
	assert.Equal(t, []int64{0, 0, 0, 0}, []int64{used(), l.Reserved(), l.Pending(), l.Own().Used})

	b := l.BeginWork(now, Work{Fetched: 300})
	assert.EqualValues(t, 300, l.Own().Used)
	b.End() // without an answer
	b.End()
	assert.Equal(t, []int64{0, 0, 0}, []int64{used(), l.Reserved(), l.Own().Used})
}
