package config

import (
	"cmp"

	"github.com/warmpath/warmpath/radix/hugepage"
)

const (
	// indexShare is the part of the memory that the index may take by default. The collector needs
	// up to as much again; the rest is for requests and the prompt cache.
	indexShare = 4
	// unknownMemory stands for the memory of a machine that does not tell it.
	unknownMemory = 16 << 30
)

// defaultIndexBytes returns the index's bound where the operator sets none.
func defaultIndexBytes() int64 { return cmp.Or(hugepage.Memory(), unknownMemory) / indexShare }
