package tokenizer

import "slices"

// regex is a compiled pattern. Matching backtracks as Oniguruma does, so it finds the same match;
// but a state that failed once is not tried again in a match, so its work is at most the length of
// the text times that of the program. Look-ahead and many matches multiply that; a budget bounds
// the sum.
type regex struct {
	code []instr
	err  error // of the compilation
}

// instr is one step of the program. x and y are where to go on, by index.
type instr struct {
	op   opcode
	set  *chars
	x, y int
	not  bool
}

type opcode uint8

const (
	opChar   opcode = iota // one character of set, then the next instruction
	opSplit                // x, and y where that fails
	opJump                 // x
	opMatch                // the end
	opAtomic               // the program from the next instruction to its opMatch, once; then x
	opAhead                // the same without moving; not inverts it
	opBehind               // the character before is, or is not, in set
	opStart                // the start of the text
	opEnd                  // the end of the text
	opLineStart
	opLineEnd
)

// maxProgram bounds the program of a pattern.
const maxProgram = 20000

// compileRegex makes a pattern into a program that matches at least one character.
func compileRegex(t *unicodeTables, pattern string) (*regex, error) {
	if len(pattern) > maxPattern {
		return nil, overLimit("a regular expression of %d bytes", len(pattern))
	}
	n, err := parseRegex(t, pattern)
	if err != nil {
		return nil, err
	}
	if mayBeEmpty(n) {
		return nil, unsupported("a pattern that may match nothing: " + pattern)
	}
	r := &regex{}
	r.compile(n)
	r.emit(instr{op: opMatch})
	return r, r.err
}

// fail notes a construct that cannot be compiled; the program is then any.
func (r *regex) fail(construct string) {
	if r.err == nil {
		r.err = unsupported(construct)
	}
}

// The library takes empty matches too, where its iterator and the gaps between matches have cases
// of their own.
//
// mayBeEmpty reports whether a node can match without taking a character.
func mayBeEmpty(n *node) bool {
	switch n.kind {
	case oneOf:
		return false
	case choice:
		return slices.ContainsFunc(n.parts, mayBeEmpty)
	case repeat:
		return n.min == 0 || mayBeEmpty(n.parts[0])
	case sequence, atomicGroup:
		return !slices.ContainsFunc(n.parts, func(part *node) bool { return !mayBeEmpty(part) })
	default:
		return true
	}
}

func (r *regex) emit(i instr) int {
	r.code = append(r.code, i)
	return len(r.code) - 1
}

func (r *regex) compile(n *node) {
	if len(r.code) > maxProgram {
		r.fail("a regular expression of more than 20,000 steps")
	}
	if r.err != nil {
		return
	}
	switch n.kind {
	case oneOf:
		r.emit(instr{op: opChar, set: newChars(n.set)})
	case sequence:
		for _, part := range n.parts {
			r.compile(part)
		}
	case choice:
		r.compileChoice(n)
	case repeat:
		r.compileRepeat(n)
	case atomicGroup:
		r.compileSub(instr{op: opAtomic}, n.parts[0])
	case ahead:
		r.compileSub(instr{op: opAhead, not: n.negative}, n.parts[0])
	case behind:
		r.emit(instr{op: opBehind, set: newChars(anyOf(n.parts[0])), not: n.negative})
	case textStart:
		r.emit(instr{op: opStart})
	case textEnd:
		r.emit(instr{op: opEnd})
	case lineStart:
		r.emit(instr{op: opLineStart})
	case lineEnd:
		r.emit(instr{op: opLineEnd})
	}
}

// anyOf is the set of a node that matches one character.
func anyOf(n *node) set {
	if n.kind == oneOf {
		return n.set
	}
	var all set
	for _, part := range n.parts {
		all = union(all, anyOf(part))
	}
	return all
}

func (r *regex) compileChoice(n *node) {
	var ends []int
	for i, part := range n.parts {
		split := -1
		if i+1 < len(n.parts) {
			split = r.emit(instr{op: opSplit, x: len(r.code) + 1})
		}
		r.compile(part)
		if split >= 0 {
			ends = append(ends, r.emit(instr{op: opJump}))
			r.code[split].y = len(r.code)
		}
	}
	for _, end := range ends {
		r.code[end].x = len(r.code)
	}
}

func (r *regex) compileRepeat(n *node) {
	part := n.parts[0]
	// Such a loop would not advance; Oniguruma's checks for it decide the match.
	if mayBeEmpty(part) && n.max != 1 {
		r.fail("a repetition of something that may match nothing")
		return
	}
	if n.mode == possessive {
		plain := *n
		plain.mode = greedy
		r.compileSub(instr{op: opAtomic}, &plain)
		return
	}
	for range n.min {
		r.compile(part)
	}
	// Without a limit: a loop of split, part, jump back.
	if n.max < 0 {
		split := r.emit(instr{op: opSplit})
		r.compile(part)
		r.emit(instr{op: opJump, x: split})
		r.code[split].x, r.code[split].y = split+1, len(r.code)
		r.turn(split, n.mode)
		return
	}
	// With a limit: copies of the part, each behind a split to the end.
	var splits []int
	for range n.max - n.min {
		splits = append(splits, r.emit(instr{op: opSplit}))
		r.compile(part)
	}
	for _, split := range splits {
		r.code[split].x, r.code[split].y = split+1, len(r.code)
		r.turn(split, n.mode)
	}
}

// turn makes a split prefer to leave the loop, for a lazy repetition.
func (r *regex) turn(split int, mode repeatMode) {
	if mode == lazy {
		r.code[split].x, r.code[split].y = r.code[split].y, r.code[split].x
	}
}

// compileSub puts a program of its own behind an instruction, which continues at x.
func (r *regex) compileSub(i instr, part *node) {
	at := r.emit(i)
	r.compile(part)
	r.emit(instr{op: opMatch})
	r.code[at].x = len(r.code)
}

// state is a place in the program and in the text.
type state struct{ pc, at int }

// maxUntrackedSteps bounds the steps of a match before it records the states it has tried.
// Patterns of real models stay below it except in long runs of one kind of character.
const maxUntrackedSteps = 4096

// stepsPerState is the cost of a recorded state, in steps.
const stepsPerState = 16

// maxStates bounds the memory of one match: 40 MiB of tried states, 16 MiB of those to try.
const maxStates = 1 << 20

// run is the end of the match of the program from pc at s[i], or -1.
func (r *regex) run(b *budget, s string, pc, i int) int {
	var buffer [64]state
	stack := append(buffer[:0], state{pc, i})
	var tried map[state]bool
	steps := 0
	for len(stack) > 0 {
		now := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for now.at >= 0 {
			if b.steps--; b.steps < 0 {
				b.over = true
				return -1
			}
			in := &r.code[now.pc]
			if in.op == opMatch {
				return now.at
			}
			if in.op != opSplit {
				now = r.step(b, s, in, now)
				continue
			}
			if steps++; steps == maxUntrackedSteps {
				tried = map[state]bool{}
			}
			if max(len(stack), len(tried)) > maxStates {
				b.over = true
				return -1
			}
			// Where all repetitions move on, a second arrival can only fail as the first did.
			if tried != nil {
				if tried[now] {
					break
				}
				tried[now] = true
				b.steps -= stepsPerState
			}
			stack = append(stack, state{in.y, now.at})
			now.pc = in.x
		}
	}
	return -1
}

// step takes one instruction other than a split or the end. Where it fails, at is -1.
func (r *regex) step(b *budget, s string, in *instr, now state) state {
	next := state{now.pc + 1, now.at}
	failed := state{at: -1}
	switch in.op {
	case opChar:
		if now.at >= len(s) {
			return failed
		}
		in, n := in.set.at(s, now.at)
		if !in {
			return failed
		}
		next.at += n
	case opJump:
		next.pc = in.x
	case opAtomic:
		next = state{in.x, r.run(b, s, now.pc+1, now.at)}
	case opAhead:
		next.pc = in.x
		if (r.run(b, s, now.pc+1, now.at) >= 0) == in.not {
			return failed
		}
	default:
		if !r.holds(s, in, now.at) {
			return failed
		}
	}
	return next
}

// holds is an assertion about a place in the text.
func (r *regex) holds(s string, in *instr, at int) bool {
	switch in.op {
	case opBehind:
		before := at - 1
		for before > 0 && s[before]&0xC0 == 0x80 {
			before--
		}
		found := false
		if at > 0 {
			found, _ = in.set.at(s, before)
		}
		return found != in.not
	case opStart:
		return at == 0
	case opEnd:
		return at == len(s)
	case opLineStart:
		return at == 0 || s[at-1] == '\n' && at < len(s)
	default:
		return at == len(s) || s[at] == '\n'
	}
}

// next is the leftmost match from s[i] on, as Regex::find_iter of the library goes on after each
// match.
func (r *regex) next(b *budget, s string, i int) (int, bool) {
	for at := i; at < len(s) && !b.over; {
		if end := r.run(b, s, 0, at); end >= 0 {
			if at > i {
				return at, false
			}
			return end, true
		}
		_, n := decode(s, at)
		at += n
	}
	return len(s), false
}
