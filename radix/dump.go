package radix

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
)

// maxDumpHolders keeps a line readable where thousands of workers share a prompt.
const maxDumpHolders = 8

// dumper writes a tree as text.
type dumper struct {
	out   *bufio.Writer
	left  int // runs
	below map[*run][]*run
}

func dump(t *tree, w io.Writer, maxRuns int) {
	d := dumper{out: bufio.NewWriter(w), left: maxRuns, below: make(map[*run][]*run)}
	t.children.all(func(r *run) { d.below[r.parent] = append(d.below[r.parent], r) })
	for _, children := range d.below {
		slices.SortFunc(children, func(a, b *run) int {
			return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.id, b.id))
		})
	}
	t.domains.all(func(of *domain) {
		k := &of.key
		fmt.Fprintf(d.out, "domain %d model=%q block=%d lora=%q salt=%q bigram=%t\n",
			of.id, k.Model, k.BlockSize, k.LoRA, k.Salt, k.Bigram)
		d.children(of.root, "")
	})
	_ = d.out.Flush() // an error means that the reader has gone
}

// children writes the runs below r.
func (d *dumper) children(r *run, indent string) {
	children := d.below[r]
	for i, c := range children {
		if d.left == 0 {
			fmt.Fprintf(d.out, "%s└─ … %d more here\n", indent, len(children)-i)
			return
		}
		d.left--
		branch, deeper := "├─ ", "│  "
		if i == len(children)-1 {
			branch, deeper = "└─ ", "   "
		}
		fmt.Fprintf(d.out, "%s%s@%d %d blocks %016x",
			indent, branch, c.offset, len(c.hashes()), uint64(c.first))
		d.holders(c)
		d.children(c, indent+deeper)
	}
}

// holders writes the blocks that each holder covers, in any tier and on the GPU.
func (d *dumper) holders(r *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	shown := 0
	for _, h := range r.holders.slots {
		if h == nil {
			continue
		}
		if shown++; shown > maxDumpHolders {
			continue
		}
		fmt.Fprintf(d.out, " w%d:%d/%d", h.worker, h.coveredAny, h.coveredGPU)
	}
	if shown > maxDumpHolders {
		fmt.Fprintf(d.out, " +%d", shown-maxDumpHolders)
	}
	fmt.Fprintln(d.out)
}
