package nixl

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Place is what decides whether the kernel lets one process of a machine read another's memory (process_vm_readv), and so whether UCX takes CMA between
// them. It tries before it takes it, and else takes TCP without a word (UCX 1.23, tried for each of the fields). The rule is the kernel's
// __ptrace_may_access: equal users and groups, and no capability that the reader lacks; who has CAP_SYS_PTRACE reads all.
type Place struct {
	Boot          string // random, new for each start of a kernel: equal on one machine only
	PIDNamespace  string
	UserNamespace string
	UID, GID      string // real, effective and saved, as in "1000 1000 1000"
	Capabilities  uint64 // permitted
	Hidden        bool   // the kernel dumps no core of it, and shows its memory to nobody without CAP_SYS_PTRACE: a file with capabilities was started
}

// Here is the place of this process. root is where /proc is, "/" but in tests. Fields that cannot be read are "".
func Here(root string) Place {
	p := Place{Boot: strings.TrimSpace(content(root + "/proc/sys/kernel/random/boot_id"))}
	p.PIDNamespace, _ = os.Readlink(root + "/proc/self/ns/pid")
	p.UserNamespace, _ = os.Readlink(root + "/proc/self/ns/user")
	for line := range strings.Lines(content(root + "/proc/self/status")) {
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

func content(path string) string {
	data, _ := os.ReadFile(path) // what cannot be read is not known
	return string(data)
}

// Known reports whether all could be read.
func (p *Place) Known() bool {
	return p.Boot != "" && p.PIDNamespace != "" && p.UserNamespace != "" && p.UID != "" && p.GID != ""
}

// sysPtrace is the capability to read any process's memory.
const sysPtrace = 19

// Withheld says in words why the kernel does not let a process at p read the memory of one at q, both of one machine; nil where it does, as far as is known.
func (p *Place) Withheld(q *Place) []string {
	var why []string
	say := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	known := p.UserNamespace != "" && q.UserNamespace != ""
	if p.PIDNamespace != q.PIDNamespace {
		say("they are in two PID namespaces; give the containers one (docker run --pid=host, hostPID: true)")
	}
	if known && p.UserNamespace != q.UserNamespace {
		say("they are in two user namespaces, as rootless containers are; run both in one")
	}
	if p.Capabilities&(1<<sysPtrace) != 0 && (!known || p.UserNamespace == q.UserNamespace) {
		return why
	}
	switch {
	case p.UID != q.UID:
		say("user ids %s and %s differ, so that neither may read the other's memory; run both as one user", short(p.UID), short(q.UID))
	case p.GID != q.GID:
		say("group ids %s and %s differ, so that neither may read the other's memory; run both with one group", short(p.GID), short(q.GID))
	case q.Capabilities&^p.Capabilities != 0:
		say("who is read has capabilities (%#x) that the reader lacks; give both the same ones", q.Capabilities&^p.Capabilities)
	}
	if q.Hidden {
		say("who is read was started from a file with capabilities or with its owner's rights, which hides its memory; give the service its capabilities instead")
	}
	return why
}

// short is one id instead of three that are equal.
func short(ids string) string {
	if list := strings.Fields(ids); len(list) > 0 && len(slices.Compact(list)) == 1 {
		return list[0]
	}
	return ids
}

// AllowsCMA reports whether a value of UCX_TLS lets UCX take CMA. It is a list of transports and of names for several of them, or "^" and a list of what is left out.
func AllowsCMA(transports string) bool {
	list, without := strings.CutPrefix(transports, "^")
	if list == "" {
		return true
	}
	for name := range strings.SplitSeq(list, ",") {
		switch name {
		case "cma", "sm", "shm":
			return !without
		case "all":
			return true
		}
	}
	return without
}
