//go:build !linux

package loop

import "net"

// event stands for Linux's epoll_event.
type event struct {
	Events uint32
	Fd     int32
}

const canRead, canWrite, hungUp = 1, 2, 4

func openPoll() (poll, wake int, err error)                 { return 0, 0, ErrPlatform }
func watch(int, int) error                                  { return ErrPlatform }
func watchListener(int, int) error                          { return ErrPlatform }
func wait(int, []event, int64) (int, error)                 { return 0, ErrPlatform }
func sharpen()                                              {}
func ring(int)                                              {}
func silence(int)                                           {}
func listen(*net.TCPAddr) (fd, port int, err error)         { return 0, 0, ErrPlatform }
func accept(int) (int, error)                               { return 0, ErrPlatform }
func connect(*net.TCPAddr) (int, error)                     { return 0, ErrPlatform }
func sockError(int) error                                   { return ErrPlatform }
func trySend(int, []byte) (int, error)                      { return 0, ErrPlatform }
func tryReceive(int, []byte) (n int, again bool, err error) { return 0, false, ErrPlatform }
func closeFD(int)                                           {}
