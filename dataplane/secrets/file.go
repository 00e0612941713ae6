package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrShared is a file that others than this process's user can read or may have written.
var ErrShared = errors.New("secrets: not a file of this user alone")

// OpenOwn opens a file that no other user can know or have written: a regular one, no symbolic
// link, of this process's user and closed to all others, as ssh wants its keys.
func OpenOwn(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%w: %s is a symbolic link", ErrShared, name)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = own(name, info)
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, err
	}
	return f, nil
}

// own returns the reason why a file is not this user's alone.
func own(name string, info fs.FileInfo) error {
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is not a regular file", ErrShared, name)
	case !known || int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("%w: %s is another user's", ErrShared, name)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%w: %s has mode %04o, and other users than its owner get in: chmod 600", ErrShared, name, info.Mode().Perm())
	}
	return nil
}
