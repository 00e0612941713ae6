package store

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// ErrRegion says that an engine's memory is not what it announced.
var ErrRegion = errors.New("tier: an engine's memory")

// region is memory of an engine, its host KV pool, mapped read-only: this process never writes to an engine's memory, so
// whatever becomes of this one, stopped or killed in the middle of a copy, the engine's pages are its own.
type region struct {
	data []byte
}

// mapRegion maps the whole of a descriptor, which the caller still closes.
func mapRegion(f *os.File) (*region, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRegion, err)
	}
	if !info.Mode().IsRegular() || info.Size() <= 0 {
		return nil, fmt.Errorf("%w: a descriptor of mode %v with %d bytes, and a memfd was expected", ErrRegion, info.Mode(), info.Size())
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot map %d bytes: %w", ErrRegion, info.Size(), err)
	}
	return &region{data}, nil
}

func (r *region) close() { _ = unix.Munmap(r.data) } // Fails for arguments only, and these are mmap's own.

// form is how an engine's pages lie in its regions.
type form struct {
	regions []*region
	pieces  []piece
	bytes   int
}

// gather copies the page whose first token has the given number. dst has form.bytes bytes.
//
// An engine may cut its memory off while it is read. The kernel then answers with SIGBUS, which becomes an error here and
// ends this engine's connection, not the process.
func (f *form) gather(dst []byte, token uint64) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			if _, ok := fault.(interface{ Addr() uintptr }); !ok {
				panic(fault) //nolint:forbidigo // Somebody else's, and not the memory's fault.
			}
			err = fmt.Errorf("%w: gone while it was read: %v", ErrRegion, fault)
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
