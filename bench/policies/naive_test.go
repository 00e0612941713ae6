package policies

import "slices"

// naive is the obvious simulation of one worker: token by token, page by page, step by step. It
// shares nothing with the fast one but the service-time formula, which it applies to one step
// at a time.
type naive struct {
	page, pool int
	unit       map[string]string // see units
	used       map[string]int    // by unit
	refs       map[string]int
	costs      costs
	pages      map[string]*naivePage // by the content of everything up to and with the page
	tick       int
	taken      int
	waiting    []*naiveTask
	running    []*naiveTask
	chunked    *naiveTask
}

type naivePage struct {
	parent string
	kids   int
	depth  int
}

// units names the unit of each page by its first one. As in SGLang's tree, a node is used and
// locked as a whole: the pages behind which no sequence of the trace ends and no two part.
func units(page int, trace [][]uint64, ends []int) map[string]string {
	w := &naive{page: page}
	next, end := map[string]map[string]bool{}, map[string]bool{"": true}
	for i, tokens := range trace {
		t := &naiveTask{tokens: tokens}
		before := ""
		for n := 1; n <= ends[i]; n++ {
			k := w.key(t, n)
			if next[before] == nil {
				next[before] = map[string]bool{}
			}
			next[before][k] = true
			before = k
		}
		end[before] = true
	}
	unit := map[string]string{}
	for i, tokens := range trace {
		t := &naiveTask{tokens: tokens}
		before, head := "", ""
		for n := 1; n <= ends[i]; n++ {
			k := w.key(t, n)
			if end[before] || len(next[before]) > 1 {
				head = k
			}
			unit[k], before = head, k
		}
	}
	return unit
}

type naiveTask struct {
	at            clock
	tokens        []uint64 // of prompt and answer
	input, output int
	computed      int
	cached        int
	stored        int // pages of it in the cache
	owned         int
	locked        []string
	made          int
	first, ended  clock
}

// key names the first n pages of a task.
func (w *naive) key(t *naiveTask, n int) string {
	b := make([]byte, 0, n*w.page*8)
	for _, id := range t.tokens[:n*w.page] {
		for shift := 0; shift < 64; shift += 8 {
			b = append(b, byte(id>>shift))
		}
	}
	return string(b)
}

func (w *naive) match(t *naiveTask) (n int) {
	for n < (t.input-1)/w.page && w.pages[w.key(t, n+1)] != nil {
		n++
	}
	return n
}

// lock counts t as a user of the units of its first n pages.
func (w *naive) lock(t *naiveTask, n int) {
	for i := range n {
		if u := w.unit[w.key(t, i+1)]; !slices.Contains(t.locked, u) {
			w.refs[u]++
			t.locked = append(t.locked, u)
		}
	}
}

func (w *naive) unlock(t *naiveTask) {
	for _, u := range t.locked {
		w.refs[u]--
	}
	t.locked = nil
}

func (w *naive) touch(t *naiveTask, n int) {
	w.tick++
	for i := range n {
		w.used[w.unit[w.key(t, i+1)]] = w.tick
	}
}

func (w *naive) pinned() (n int) {
	for k := range w.pages {
		if w.refs[w.unit[k]] > 0 {
			n++
		}
	}
	return n
}

// evict drops the least recently used unit without children, or its last pages where it has more
// than a chunk.
func (w *naive) evict() {
	victim := ""
	for k, p := range w.pages {
		if w.refs[w.unit[k]] > 0 || p.kids > 0 {
			continue
		}
		if w.pages[victim] == nil || w.used[w.unit[k]] < w.used[w.unit[victim]] {
			victim = k
		}
	}
	for n, u := 0, w.unit[victim]; n < w.costs.chunk/w.page && w.pages[victim] != nil && w.unit[victim] == u; n++ {
		parent := w.pages[victim].parent
		if p := w.pages[parent]; p != nil {
			p.kids--
		}
		delete(w.pages, victim)
		victim = parent
	}
}

func (w *naive) up(n int) int { return (n + w.page - 1) / w.page }

func (w *naive) admit(t *naiveTask) bool {
	n := w.match(t)
	w.lock(t, n)
	need := w.up(t.input+t.output) - n
	if need > w.pool-w.taken-w.pinned() {
		w.unlock(t)
		return false
	}
	w.touch(t, n)
	for w.pool-w.taken-len(w.pages) < need {
		w.evict()
	}
	t.cached, t.computed, t.stored, t.owned = n*w.page, n*w.page, n, need
	w.taken += need
	return true
}

func (w *naive) store(t *naiveTask, n int) {
	for i := range n {
		k, parent := w.key(t, i+1), ""
		if i > 0 {
			parent = w.key(t, i)
		}
		if w.pages[k] == nil {
			w.pages[k] = &naivePage{parent: parent, depth: i}
			if i > 0 {
				w.pages[parent].kids++
			}
		}
	}
	w.touch(t, n)
	w.lock(t, n)
	w.taken -= n - t.stored
	t.owned -= n - t.stored
	t.stored = n
}

func (w *naive) finish(t *naiveTask, now clock) {
	w.store(t, (t.input+t.output-1)/w.page)
	w.unlock(t)
	w.taken -= t.owned
	t.ended = now
}

// serve plays tasks, in order of arrival, to the end.
func (w *naive) serve(tasks []*naiveTask) {
	now, arrived := clock(0), 0
	for arrived < len(tasks) || len(w.waiting)+len(w.running) > 0 || w.chunked != nil {
		if len(w.waiting)+len(w.running) == 0 && w.chunked == nil {
			now = max(now, tasks[arrived].at)
		}
		for arrived < len(tasks) && tasks[arrived].at <= now {
			w.waiting = append(w.waiting, tasks[arrived])
			arrived++
		}
		batch, tokens := w.batch()
		if len(batch) > 0 {
			now += w.costs.prefill(tokens, 0)
			w.prefilled(batch, now)
			continue
		}
		if len(w.running) == 0 {
			continue
		}
		context := int64(0)
		for _, t := range w.running {
			context += int64(t.input + t.made)
		}
		now += w.costs.decodeBase + clock(len(w.running))*w.costs.decodeRequest + clock(context)*w.costs.decodeToken
		for _, t := range slices.Clone(w.running) {
			if t.made++; t.made == t.output {
				w.finish(t, now)
				w.running = slices.DeleteFunc(w.running, func(o *naiveTask) bool { return o == t })
			}
		}
	}
}

func (w *naive) batch() (batch []*naiveTask, tokens int) {
	budget := w.costs.chunk
	add := func(t *naiveTask) {
		n := t.input - t.computed
		if n > budget {
			n = budget
			for (t.computed+n)%w.page != 0 {
				n--
			}
			w.chunked = t
		}
		t.computed += n
		budget -= n
		tokens += n
		batch = append(batch, t)
	}
	if t := w.chunked; t != nil {
		w.chunked = nil
		add(t)
	}
	for len(w.waiting) > 0 && w.chunked == nil && budget >= w.page && len(w.running)+len(batch) < w.costs.running && w.admit(w.waiting[0]) {
		t := w.waiting[0]
		w.waiting = w.waiting[1:]
		add(t)
	}
	return batch, tokens
}

func (w *naive) prefilled(batch []*naiveTask, now clock) {
	for _, t := range batch {
		w.store(t, t.computed/w.page)
		if t == w.chunked {
			continue
		}
		t.made, t.first = 1, now
		if t.output == 1 {
			w.finish(t, now)
		} else {
			w.running = append(w.running, t)
		}
	}
}
