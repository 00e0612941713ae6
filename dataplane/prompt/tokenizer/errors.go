package tokenizer

import (
	"errors"
	"fmt"
)

// ErrUnsupported is wrapped by the error of a load when the file has a construct that this package
// does not compute. Its text names the construct.
var ErrUnsupported = errors.New("tokenizer: not supported")

// errUTF8 is the error for a text that is not UTF-8.
var errUTF8 = errors.New("tokenizer: a text that is not UTF-8")

func unsupported(construct string) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, construct)
}
