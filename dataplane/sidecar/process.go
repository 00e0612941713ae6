package sidecar

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processes reads the table of processes. Processes end while they are read: whatever cannot be read is then not there.
type processes struct{ proc string }

// owners says which process has each of the given sockets open; where several do, after a fork, the one with the lowest PID. hidden
// counts processes whose open files this user may not see.
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

// read returns a file of a process, nil where it cannot be read.
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

// command is the command line, with spaces between the arguments.
func (p processes) command(pid int) string {
	return string(bytes.TrimSpace(bytes.ReplaceAll(p.read(pid, "cmdline"), []byte{0}, []byte{' '})))
}

// environment returns the variables that a process was started with; false where they may not be read.
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

// parent returns who started a process: the second field after its name in /proc/PID/stat, whose name may hold anything, parentheses too.
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

// maxDepth bounds the way from a scheduler to its worker's HTTP process: SGLang's is 1, a launcher's a few more.
const maxDepth = 16

// rootOf walks from a process to its ancestors until one is a worker's; 0 where none is.
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
