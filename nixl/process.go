package nixl

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ProcessIdentity holds the credentials and namespaces by which the kernel lets one process of
// a machine read another's memory (process_vm_readv), and so by which UCX can use CMA between
// them. UCX tries CMA first, and otherwise silently takes TCP (UCX 1.23, tested for each
// field). The rule is the kernel's __ptrace_may_access: equal users and groups, and no
// capability that the reader lacks; CAP_SYS_PTRACE reads all.
type ProcessIdentity struct {
	Boot          string `json:"boot"` // of the kernel, random: equal on one machine only
	PIDNamespace  string `json:"pid_namespace"`
	UserNamespace string `json:"user_namespace"`
	UID           string `json:"users"` // real, effective and saved, as in "1000 1000 1000"
	GID           string `json:"groups"`
	Capabilities  uint64 `json:"capabilities"`     // permitted
	Hidden        bool   `json:"hidden,omitempty"` // not dumpable, as after exec of a setuid file
}

// ReadProcessIdentity returns the identity of this process. root is the parent of /proc, "/"
// but in tests. Fields that cannot be read are "".
func ReadProcessIdentity(root string) ProcessIdentity {
	p := ProcessIdentity{Boot: strings.TrimSpace(readText(root + "/proc/sys/kernel/random/boot_id"))}
	p.PIDNamespace, _ = os.Readlink(root + "/proc/self/ns/pid")
	p.UserNamespace, _ = os.Readlink(root + "/proc/self/ns/user")
	for line := range strings.Lines(readText(root + "/proc/self/status")) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 4 && fields[0] == "Uid:":
			p.UID = strings.Join(fields[1:4], " ")
		case len(fields) >= 4 && fields[0] == "Gid:":
			p.GID = strings.Join(fields[1:4], " ")
		case len(fields) == 2 && fields[0] == "CapPrm:":
			p.Capabilities, _ = strconv.ParseUint(fields[1], 16, 64)
		}
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	p.Hidden = err == nil && dumpable != 1
	return p
}

func readText(path string) string {
	data, _ := os.ReadFile(path) // an unreadable file leaves its fields empty
	return string(data)
}

// Complete reports whether all fields could be read.
func (p *ProcessIdentity) Complete() bool {
	return p.Boot != "" && p.PIDNamespace != "" && p.UserNamespace != "" && p.UID != "" && p.GID != ""
}

// sysPtrace is the capability to read any process's memory.
const sysPtrace = 19

// ReadDenials lists the reasons why the kernel does not let process p read the memory of q on
// the same machine; nil where it does, as far as is known.
func (p *ProcessIdentity) ReadDenials(q *ProcessIdentity) []string {
	var reasons []string
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	known := p.UserNamespace != "" && q.UserNamespace != ""
	if p.PIDNamespace != q.PIDNamespace {
		add("they are in two PID namespaces; give the containers one (docker run --pid=host, hostPID: true)")
	}
	if known && p.UserNamespace != q.UserNamespace {
		add("they are in two user namespaces, as rootless containers are; run both in one")
	}
	if p.Capabilities&(1<<sysPtrace) != 0 && (!known || p.UserNamespace == q.UserNamespace) {
		return reasons
	}
	switch {
	case p.UID != q.UID:
		add("user ids %s and %s differ, so that neither may read the other's memory; run both as one user",
			shorten(p.UID), shorten(q.UID))
	case p.GID != q.GID:
		add("group ids %s and %s differ, so that neither may read the other's memory; run both with one group",
			shorten(p.GID), shorten(q.GID))
	case q.Capabilities&^p.Capabilities != 0:
		add("the process that is read has capabilities (%#x) that the reader lacks; give both the same ones",
			q.Capabilities&^p.Capabilities)
	}
	if q.Hidden {
		add("the process that is read was started from a file with capabilities or a setuid bit, which hides its memory; " +
			"give the service its capabilities instead")
	}
	return reasons
}

// shorten replaces three equal ids by one.
func shorten(ids string) string {
	if list := strings.Fields(ids); len(list) > 0 && len(slices.Compact(list)) == 1 {
		return list[0]
	}
	return ids
}

// AllowsCMA reports whether a value of UCX_TLS lets UCX use CMA. The value is a list of
// transports and of names for several of them, or "^" and a list of excluded ones.
func AllowsCMA(transports string) bool {
	list, excluded := strings.CutPrefix(transports, "^")
	if list == "" {
		return true
	}
	for name := range strings.SplitSeq(list, ",") {
		switch name {
		case "cma", "sm", "shm":
			return !excluded
		case "all":
			return true
		}
	}
	return excluded
}
