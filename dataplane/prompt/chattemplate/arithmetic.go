package chattemplate

import (
	"math"
	"math/bits"
	"strings"
)

// tooBig is the reason of errors for results beyond 64 bits. Python computes with integers of any
// size.
const tooBig = "an integer beyond 64 bits"

// binaryOp is Python's left op right.
func binaryOp(s *state, line int, op string, left, right value) value {
	switch {
	case op == "%" && left.k == kString:
		return s.unsupported("a text with %")
	case op == "+" && left.isStr() && right.isStr() && (left.k == kMarkup || right.k == kMarkup):
		return addMarkup(s, left, right)
	case left.k == kMarkup || right.k == kMarkup:
		return s.unsupported("operator " + op + " on Markup")
	case left.k == kUndefined || right.k == kUndefined:
		return s.raise(line, "undefined value in %s", op)
	case left.k == kBig || right.k == kBig:
		return s.unsupported(tooBig)
	case left.isInt() && right.isInt():
		return intOp(s, line, op, left.n, right.n)
	case left.isNum() && right.isNum():
		return floatOp(s, line, op, left.asFloat(), right.asFloat())
	case op == "+" && left.k == kString && right.k == kString:
		return strValue(s.concat(left.s, right.s))
	case op == "+" && left.k == right.k && (left.k == kList || left.k == kTuple):
		return concatLists(s, left, right)
	case op == "*" && right.isInt():
		return repeatValue(s, line, left, right.n)
	case op == "*" && left.isInt():
		return repeatValue(s, line, right, left.n)
	case op == "-" && left.k == kView, op == "-" && right.k == kView:
		return s.unsupported("set operations on views")
	}
	return s.raise(line, "unsupported operand types for %s: %s and %s", op, left.typeName(), right.typeName())
}

// addMarkup joins a string and Markup: the string is escaped, the sum is Markup.
func addMarkup(s *state, left, right value) value {
	if left.k == kString {
		left.s = escaped(s, left.s)
	}
	if right.k == kString {
		right.s = escaped(s, right.s)
	}
	return value{k: kMarkup, s: s.concat(left.s, right.s)}
}

// concatLists makes a new list or tuple of two.
func concatLists(s *state, left, right value) value {
	items := s.list(len(left.o.items) + len(right.o.items))
	if items == nil {
		return undefValue
	}
	n := copy(items, left.o.items)
	copy(items[n:], right.o.items)
	return s.listValue(left.k, items)
}

// repeatValue is a string, list or tuple times n. The result is charged before it is made.
func repeatValue(s *state, line int, v value, n int64) value {
	n = max(n, 0)
	if v.k == kString {
		size := int64(len(v.s))
		if size == 0 || n == 0 {
			return strValue("")
		}
		if n > int64(s.limit.Memory) || !s.charge(int(size*n)) {
			s.charge(s.limit.Memory)
			return undefValue
		}
		return strValue(strings.Repeat(v.s, int(n)))
	}
	if v.k != kList && v.k != kTuple {
		return s.raise(line, "cannot multiply %s", v.typeName())
	}
	if n > int64(s.limit.Memory) {
		s.charge(s.limit.Memory)
		return undefValue
	}
	items := s.list(len(v.o.items) * int(n))
	if items == nil {
		return undefValue
	}
	for at := 0; at < len(items); {
		at += copy(items[at:], v.o.items)
	}
	return s.listValue(v.k, items)
}

// intOp is arithmetic on integers. A result beyond 64 bits, which Python has, is ErrUnsupported. //
// and % round down, also below zero.
func intOp(s *state, line int, op string, a, b int64) value {
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return intValue(c)
		}
		return s.unsupported(tooBig)
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return intValue(c)
		}
		return s.unsupported(tooBig)
	case "*":
		return mulInt(s, a, b)
	}
	if b == 0 {
		return s.raise(line, "division by zero")
	}
	switch op {
	case "/":
		if bits.Len64(uint64(max(a, -a))) > 53 || bits.Len64(uint64(max(b, -b))) > 53 {
			return s.unsupported("a quotient of large integers")
		}
		return floatValue(float64(a) / float64(b))
	case "//":
		if a == math.MinInt64 && b == -1 {
			return s.unsupported(tooBig)
		}
		q := a / b
		if a%b != 0 && (a < 0) != (b < 0) {
			q--
		}
		return intValue(q)
	}
	if b == -1 {
		return intValue(0)
	}
	m := a % b
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return intValue(m)
}

// mulInt multiplies, and says so if the product does not fit.
func mulInt(s *state, a, b int64) value {
	c := a * b
	if a != 0 && (c/a != b || a == -1 && b == math.MinInt64) {
		return s.unsupported(tooBig)
	}
	return intValue(c)
}

// floatOp is arithmetic on floats, where at least one operand is one.
func floatOp(s *state, line int, op string, a, b float64) value {
	switch op {
	case "+":
		return floatValue(a + b)
	case "-":
		return floatValue(a - b)
	case "*":
		return floatValue(a * b)
	}
	if b == 0 {
		return s.raise(line, "float division by zero")
	}
	if op == "/" {
		return floatValue(a / b)
	}
	return s.unsupported("a remainder of floats")
}
