//go:build !libzmq

package zmq

import "fmt"

// curveLibrary fails: without libzmq, streams use the mechanism NULL.
func curveLibrary() (string, error) {
	return "", fmt.Errorf("%w: %s is set, but this binary was built without -tags libzmq", ErrCurve, EnvCurve)
}

func attemptCurve(*subscriber) error {
	_, err := curveLibrary()
	return err
}

func roundCurve(*replay, string) (whole, asked bool, err error) {
	_, err = curveLibrary()
	return false, false, err
}
