//go:build !race

package bubbletest

func alone() (end func()) { return func() {} }
