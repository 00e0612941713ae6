package store

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// ErrRegion says that an engine's memory differs from its announcement.
var ErrRegion = errors.New("store: an engine's memory")

// region is the host KV pool of an engine, mapped read-only: this process never writes to it, so
// that the engine's pages stay intact also when this process is stopped or killed during a copy.
type region struct {
	data []byte
}

// mapRegion maps a whole file, which the caller still closes.
func mapRegion(f *os.File) (*region, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRegion, err)
	}
	if !info.Mode().IsRegular() || info.Size() <= 0 {
		return nil, fmt.Errorf("%w: want a memfd, have a descriptor of mode %v with %d bytes", ErrRegion, info.Mode(), info.Size())
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot map %d bytes: %w", ErrRegion, info.Size(), err)
	}
	return &region{data}, nil
}

func (r *region) close() { _ = unix.Munmap(r.data) } // fails only for bad arguments

// layout is the layout of an engine's pages in its regions.
type layout struct {
	regions []*region
	pieces  []piece
	bytes   int // of a page
}

// gather copies the page whose first token has the given number. dst has layout.bytes bytes.
//
// An engine may truncate its memory during the copy. The kernel answers with SIGBUS, which
// becomes an error here: it ends the engine's connection, not the process.
func (f *layout) gather(dst []byte, token uint64) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			if _, ok := fault.(interface{ Addr() uintptr }); !ok {
				panic(fault) //nolint:forbidigo // A bug, and no memory fault.
			}
			err = fmt.Errorf("%w: gone during a read: %v", ErrRegion, fault)
		}
	}()
	for _, p := range f.pieces {
		over, at := bits.Mul64(token, p.stride)
		at, carry := bits.Add64(at, p.base, 0)
		data := f.regions[p.region].data
		if over != 0 || carry != 0 || at > uint64(len(data)) || uint64(len(data))-at < uint64(p.bytes) {
			return fmt.Errorf("%w: token %d lies outside of it", ErrRegion, token)
		}
		copy(dst, data[at:at+uint64(p.bytes)])
		dst = dst[p.bytes:]
	}
	return nil
}
