package chattemplate

import "math"

// kind is the Python type of a value.
type kind uint8

const (
	kMissing   kind = iota // no value: a variable that was never set
	kUndefined             // jinja2.Undefined
	kNone
	kBool
	kInt
	kFloat
	kBig // an integer beyond 64 bits; s holds its digits
	kString
	kMarkup // markupsafe.Markup, which filters safe and escape make
	kList
	kTuple
	kDict
	kView // dict.keys(), values() and items(); n says which
	kGen  // a generator; it can be iterated once
	kRange
	kNamespace
	kLoop
	kMacro
	kMethod // a bound method: s is its name, o.items[0] its object
	kFunc   // a global function: n says which
)

// value is any value. Which fields count is decided by k: n holds integers, bools and the bits of
// floats, s strings, o all the rest.
type value struct {
	k kind
	n int64
	s string
	o *object
}

// object is the content of a compound value. Objects belong to one render. Only namespaces,
// generators and loops change, since the sandbox of transformers forbids it for others.
type object struct {
	items []value // of a list, tuple, generator or range; the values of a dict or a namespace
	keys  []value // of a dict or a namespace
	// index finds string keys of a large dict; nil for a small one.
	index map[string]int32
	pos   int // of a generator: number of consumed items
	loop  *loopState
	macro *macroStmt
	outer *frame // where a macro was defined
	arg   [3]int64
}

// Which view of a dict a kView is.
const (
	viewKeys = iota
	viewValues
	viewItems
)

var (
	undefValue = value{k: kUndefined}
	noneValue  = value{k: kNone}
)

// strValue makes a str, which must be UTF-8.
func strValue(s string) value { return value{k: kString, s: s} }

func intValue(n int64) value { return value{k: kInt, n: n} }

func floatValue(f float64) value { return value{k: kFloat, n: int64(math.Float64bits(f))} }

func boolValue(b bool) value {
	if b {
		return value{k: kBool, n: 1}
	}
	return value{k: kBool}
}

func (v value) float() float64 { return math.Float64frombits(uint64(v.n)) }

// isStr reports whether isinstance(v, str) holds.
func (v value) isStr() bool { return v.k == kString || v.k == kMarkup }

// isInt reports whether a value is an integer to Python, which bools are too.
func (v value) isInt() bool { return v.k == kInt || v.k == kBool }

// isNum reports whether a value is a number that fits the machine.
func (v value) isNum() bool { return v.isInt() || v.k == kFloat }

func (v value) asFloat() float64 {
	if v.k == kFloat {
		return v.float()
	}
	return float64(v.n)
}

// given reports whether an optional argument is there, and not None.
func (v value) given() bool { return v.k != kMissing && v.k != kNone }

// truthy is Python's bool(v).
func (v value) truthy() bool {
	switch v.k {
	case kMissing, kUndefined, kNone:
		return false
	case kBool, kInt:
		return v.n != 0
	case kFloat:
		return v.float() != 0
	case kString, kMarkup:
		return v.s != ""
	case kList, kTuple, kRange:
		return len(v.o.items) != 0
	case kDict, kView:
		return len(v.o.keys) != 0
	}
	return true
}

// typeName is type(v).__name__.
func (v value) typeName() string {
	switch v.k {
	case kMissing, kUndefined:
		return "Undefined"
	case kNone:
		return "NoneType"
	case kBool:
		return "bool"
	case kInt, kBig:
		return "int"
	case kFloat:
		return "float"
	case kString:
		return "str"
	case kMarkup:
		return "Markup"
	case kList:
		return "list"
	case kTuple:
		return "tuple"
	case kDict:
		return "dict"
	case kGen:
		return "generator"
	case kRange:
		return "range"
	case kNamespace:
		return "Namespace"
	case kLoop:
		return "LoopContext"
	case kMacro:
		return "Macro"
	case kView:
		return [...]string{"dict_keys", "dict_values", "dict_items"}[v.n]
	}
	return "function"
}

// indexFrom is the size from which on a dict is indexed: below, comparing keys is faster than
// hashing them.
const indexFrom = 16

// find returns the place of a string key in a dict, or -1.
func (o *object) find(key string) int {
	if o.index != nil {
		if i, ok := o.index[key]; ok {
			return int(i)
		}
		return -1
	}
	for i := range o.keys {
		if k := &o.keys[i]; k.s == key && k.isStr() {
			return i
		}
	}
	return -1
}

// get returns the value of a string key of a dict.
func (o *object) get(key string) (value, bool) {
	if i := o.find(key); i >= 0 {
		return o.items[i], true
	}
	return undefValue, false
}
