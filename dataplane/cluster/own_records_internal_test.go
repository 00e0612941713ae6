package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOneNameOfTwo: of two processes under one name the one that wrote last keeps it, whatever this one
// hears first: of the other's record, or that its own is written.
func TestOneNameOfTwo(t *testing.T) {
	k := nodeKey("n")
	for _, tt := range []struct {
		name     string
		do       func(o *ownRecords, write func() *write) []bool
		want     []bool // lost
		yielding bool
	}{
		{"later, heard before the answer", func(o *ownRecords, write func() *write) []bool {
			w := write()
			return []bool{o.contest(k, 6), o.wrote(w, 5, true)}
		}, []bool{false, true}, true},
		{"later, heard after it", func(o *ownRecords, write func() *write) []bool {
			return []bool{o.wrote(write(), 5, true), o.contest(k, 6), o.contest(k, 7)}
		}, []bool{false, true, false}, true},
		{"earlier", func(o *ownRecords, write func() *write) []bool {
			return []bool{o.contest(k, 4), o.wrote(write(), 5, true), o.contest(k, 4)}
		}, []bool{false, false, false}, false},
		{"between two writes", func(o *ownRecords, write func() *write) []bool {
			lost := []bool{o.wrote(write(), 5, true)}
			w := write()
			return append(lost, o.contest(k, 6), o.wrote(w, 7, true))
		}, []bool{false, true, false}, false},
		{"earlier, in a bucket that is an older state of itself by now", func(o *ownRecords, write func() *write) []bool {
			lost := []bool{o.wrote(write(), 30, true), o.contest(k, 29), o.wrote(write(), 40, true), o.contest(k, 39)}
			return append(lost, o.wrote(write(), 31, true))
		}, []bool{false, false, false, false, false}, false},
		{"of a new bucket", func(o *ownRecords, write func() *write) []bool {
			lost := []bool{o.contest(k, 4), o.wrote(write(), 5, true)}
			o.renumber()
			return append(lost, o.wrote(write(), 1, true))
		}, []bool{false, false, false}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, versions := ownRecords{instance: "i", list: map[key]*ownRecord{}}, ""
			lost := tt.do(&o, func() *write {
				versions += "x"
				_, err := o.set(k, &Node{Name: "n", Version: versions}, nil)
				require.NoError(t, err)
				w, _ := o.next(time.Now(), 0)
				return w
			})
			require.Equal(t, tt.want, lost)
			require.Equal(t, tt.yielding, len(o.yielded()) == 1)
		})
	}
}
