package router

import (
	"cmp"

	"github.com/warmpath/warmpath/radix/hugepage"
)

const (
	// indexShare is the part of the memory that the index may take by default. The collector needs up to as much again, and requests
	// and their sessions the rest.
	indexShare = 4
	// unknownMemory is what a machine is taken to have that does not say.
	unknownMemory = 16 << 30
)

// defaultIndexBytes returns the budget of an index for which the operator has not set one.
func defaultIndexBytes() int64 { return cmp.Or(hugepage.Memory(), unknownMemory) / indexShare }
