package store

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// lay stores pages of any size without an engine; their bytes follow from their number.
func lay(t *testing.T, tier *Store, ns uint32, hashes []proto.Hash) {
	t.Helper()
	set, results := tier.pages.reserve(ns, hashes, nil, nil, false)
	for i, r := range results {
		if r != setCopied {
			t.Fatalf("page %d finds no room: %d", i, r)
		}
		copy(set.memory(i), patterned(len(set.memory(i)), i))
	}
	set.commit()
}

func patterned(n, number int) []byte {
	const period = 4099 // a prime, so that no piece of a page equals another that begins elsewhere
	b := make([]byte, n)
	for i := range min(n, period) {
		b[i] = byte(i ^ i>>8 ^ number)
	}
	for at := period; at < n; at *= 2 {
		copy(b[at:], b[:at])
	}
	return b
}

// TestPageSizes keeps and pulls pages of uneven sizes, such as MLA's rows of 576 numbers, and of
// many MiB.
func TestPageSizes(t *testing.T) {
	const room = 512 << 20 // of addresses: slabs of 8 MiB
	for name, fabric := range fabrics() {
		t.Run(name, func(t *testing.T) {
			f := fabric()
			a := serve(t, Config{Bytes: room, Listen: "127.0.0.1:0", Node: "a", Fabric: f})
			b := serve(t, Config{Bytes: room, Listen: "127.0.0.1:0", Node: "b", Fabric: f})
			meet(t, f, a, b)
			for _, size := range []int{1, 63, 65, 4097, 576 * 2, 61 * 576 * 2, 64 * 576 * 61, 2<<20 + 64, 8 << 20} {
				model := fmt.Sprint("of ", size)
				from, to := mustSpace(t, a, model, size), mustSpace(t, b, model, size)
				hashes := chain(1, 5)
				lay(t, a, from, hashes)
				if n := b.peers.find(to, hashes, nil, patience, false); n != len(hashes) {
					t.Fatalf("%d pages of %d bytes will come, want %d", n, size, len(hashes))
				}
				b.peers.incoming.await(to, hashes, patience)
				offsets, l := b.leases.get(nil, to, hashes, patience)
				for i, o := range offsets {
					if o == absent || !bytes.Equal(b.pages.arena.at(int64(o), size), patterned(size, i)) {
						t.Errorf("page %d of %d bytes is not here, or not as it was", i, size)
					}
				}
				b.leases.release(l)
			}
		})
	}
}

// A page larger than a message of the protocol comes by NIXL only; over TCP it is computed, and
// nothing breaks.
func TestPagesTooLargeForTCP(t *testing.T) {
	const room, size = 2 << 30, maxBody + 64 // of addresses: slabs of 32 MiB
	for name, fabric := range fabrics() {
		t.Run(name, func(t *testing.T) {
			f := fabric()
			a := serve(t, Config{Bytes: room, Listen: "127.0.0.1:0", Node: "a", Fabric: f})
			b := serve(t, Config{Bytes: room, Listen: "127.0.0.1:0", Node: "b", Fabric: f})
			meet(t, f, a, b)
			from, to := mustSpace(t, a, "m", size), mustSpace(t, b, "m", size)
			hashes := chain(1, 2)
			lay(t, a, from, hashes)
			b.peers.find(to, hashes, nil, patience, false)
			b.peers.incoming.await(to, hashes, patience)
			want := 2
			if f == nil {
				want = 0
			}
			if n := b.engines.lookup(to, hashes); n != want {
				t.Errorf("%d pages are here, want %d", n, want)
			}
			if n := a.engines.lookup(from, hashes); n != 2 {
				t.Errorf("the peer has %d pages left", n)
			}
		})
	}
}

// TestFormsDoNotMeet: engines of another model, number of ranks, data type or page size have
// names of their own; an engine with an equal name and other pages is refused with a reason.
func TestFormsDoNotMeet(t *testing.T) {
	tier := serve(t, Config{})
	const form = `{"model":"%s","rank":"%s","pp":"0/1","cp":"0/1","pool":"kv","form":"mha","dtype":"%s","tokens":%d,"layers":3,"heads":8,"own":""}`
	names := []string{
		fmt.Sprintf(form, "a", "0/1", "bf16", 4), fmt.Sprintf(form, "b", "0/1", "bf16", 4), fmt.Sprintf(form, "a", "0/2", "bf16", 4),
		fmt.Sprintf(form, "a", "1/2", "bf16", 4), fmt.Sprintf(form, "a", "0/1", "fp8", 4), fmt.Sprintf(form, "a", "0/1", "bf16", 8),
	}
	var all []*engine
	for _, name := range names {
		all = append(all, dialTier(t, tier, name))
	}
	hashes := chain(1, 8) // of the same tokens, and so with the same names
	for i, e := range all {
		e.finds(names[i]+", of others", 0, hashes, 0)
		e.store(1, 8)
	}
	for i, e := range all {
		e.reads(names[i], 8, 1, hashes, 0)
	}
	e := dialRaw(t, tier.cfg.Socket)
	file, _ := newPool(t)
	m := hello{version: wireVersion, pageTokens: testTokens, regions: 1, name: names[0], pieces: layerFirst()[1:]}
	if _, _, err := e.greet(m, file); err == nil {
		t.Error("pages of another size are taken under the same name")
	}
}
