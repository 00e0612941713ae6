package radix

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
)

// Dump writes the tree as text, at most maxNodes runs of it, for people. It walks the whole child table, and
// a tree that changes meanwhile may come out torn.
func (x *Index) Dump(w io.Writer, maxNodes int) {
	d := dumper{out: bufio.NewWriter(w), left: maxNodes, below: make(map[*run][]*run)}
	x.children.each(func(r *run) { d.below[r.parent] = append(d.below[r.parent], r) })
	for _, kids := range d.below {
		slices.SortFunc(kids, func(a, b *run) int {
			return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.id, b.id))
		})
	}
	x.domains.each(func(of *domain) {
		k := &of.key
		fmt.Fprintf(d.out, "domain %d model=%q block=%d lora=%q salt=%q bigram=%t\n", of.id, k.Model, k.BlockSize, k.LoRA, k.Salt, k.Bigram)
		d.children(of.root, "")
	})
	// Nothing to tell a reader who has gone away.
	_ = d.out.Flush()
}

type dumper struct {
	out   *bufio.Writer
	left  int
	below map[*run][]*run
}

// children writes what hangs below r.
func (d *dumper) children(r *run, indent string) {
	kids := d.below[r]
	for i, k := range kids {
		if d.left == 0 {
			fmt.Fprintf(d.out, "%s└─ … %d more here\n", indent, len(kids)-i)
			return
		}
		d.left--
		branch, deeper := "├─ ", "│  "
		if i == len(kids)-1 {
			branch, deeper = "└─ ", "   "
		}
		fmt.Fprintf(d.out, "%s%s@%d %d blocks %016x", indent, branch, k.offset, len(k.hashes()), uint64(k.first))
		d.holders(k)
		d.children(k, indent+deeper)
	}
}

// maxDumpHolders keeps a line readable where thousands of workers share a prompt.
const maxDumpHolders = 8

// holders writes each worker's leading blocks in any tier and on the GPU.
func (d *dumper) holders(r *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	shown := 0
	for _, h := range r.holds {
		if h == nil {
			continue
		}
		if shown++; shown > maxDumpHolders {
			continue
		}
		fmt.Fprintf(d.out, " w%d:%d/%d", h.worker, h.leadAny, h.leadGPU)
	}
	if shown > maxDumpHolders {
		fmt.Fprintf(d.out, " +%d", shown-maxDumpHolders)
	}
	fmt.Fprintln(d.out)
}
