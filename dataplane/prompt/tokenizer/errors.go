package tokenizer

import (
	"errors"
	"fmt"
)

// ErrUnsupported is wrapped by the error of a load when the file has a construct that this package
// does not compute. Its text names the construct.
var ErrUnsupported = errors.New("tokenizer: not supported")

// unsupported is the error for a construct.
func unsupported(construct string) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, construct)
}
