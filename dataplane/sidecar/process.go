package sidecar

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// processes reads the table of processes. A process that ends during the read is treated as absent.
type processes struct{ proc string }

// owners returns the process that has each socket open; after a fork, the one with the lowest PID.
// hidden counts processes with open files that this user may not see.
func (p processes) owners(inodes map[uint64]bool) (pids map[uint64]int, hidden int) {
	pids = map[uint64]int{}
	entries, err := os.ReadDir(p.proc)
	if err != nil {
		return pids, 0
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		folder := filepath.Join(p.proc, entry.Name(), "fd")
		files, err := os.ReadDir(folder)
		if errors.Is(err, fs.ErrPermission) {
			hidden++
		}
		for _, file := range files {
			target, err := os.Readlink(filepath.Join(folder, file.Name()))
			if err != nil {
				continue
			}
			inode, ok := socketInode(target)
			if !ok || !inodes[inode] {
				continue
			}
			if old := pids[inode]; old == 0 || pid < old {
				pids[inode] = pid
			}
		}
	}
	return pids, hidden
}

// socketInode reads "socket:[12345]".
func socketInode(target string) (uint64, bool) {
	number, ok := strings.CutPrefix(target, "socket:[")
	if !ok {
		return 0, false
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
	return inode, err == nil
}

// read returns a file of a process, or nil where it cannot be read.
func (p processes) read(pid int, name string) []byte {
	if pid <= 0 {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(p.proc, strconv.Itoa(pid), name))
	if err != nil {
		return nil
	}
	return data
}

// command returns the command line, with spaces between the arguments.
func (p processes) command(pid int) string {
	return string(bytes.TrimSpace(bytes.ReplaceAll(p.read(pid, "cmdline"), []byte{0}, []byte{' '})))
}

// environment returns the initial variables of a process; false where this user may not read them.
func (p processes) environment(pid int) (map[string]string, bool) {
	data := p.read(pid, "environ")
	if data == nil {
		return nil, false
	}
	all := map[string]string{}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		if name, value, ok := strings.Cut(string(entry), "="); ok {
			all[name] = value
		}
	}
	return all, true
}

// parent returns the parent of a process: the second field after the name in /proc/PID/stat. The
// name may have any characters, parentheses too.
func (p processes) parent(pid int) int {
	data := p.read(pid, "stat")
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return 0
	}
	fields := bytes.Fields(data[end+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}

// maxDepth bounds the steps from a scheduler to its worker's HTTP process: 1 with SGLang, a few
// more with a launcher.
const maxDepth = 16

// rootOf returns the nearest ancestor of a process that is a worker's HTTP process, or 0.
func (p processes) rootOf(pid int, workers map[int]bool) int {
	for range maxDepth {
		if pid <= 1 {
			return 0
		}
		if workers[pid] {
			return pid
		}
		pid = p.parent(pid)
	}
	return 0
}

// trusted reports whether a process belongs to the user of this one, or to root: it can read the
// secrets of this one.
func (p processes) trusted(pid int) bool {
	if pid <= 0 {
		return false
	}
	info, err := os.Stat(filepath.Join(p.proc, strconv.Itoa(pid)))
	if err != nil {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && (owner.Uid == 0 || int(owner.Uid) == os.Geteuid())
}
