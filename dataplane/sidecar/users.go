package sidecar

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrUsers is a user that this machine does not know.
var ErrUsers = errors.New("sidecar: unknown user")

// anyUser is the entry of ParseUsers that admits the workers of all users.
const anyUser = "any"

// Users are the users whose sockets may belong to workers, besides this process's own.
type Users struct {
	all bool
	ids []uint32
}

// ParseUsers reads names and numbers of users, or "any".
func ParseUsers(list []string) (u Users, err error) {
	for _, text := range list {
		if text == anyUser {
			u.all = true
			continue
		}
		number := text
		if found, err := user.Lookup(text); err == nil {
			number = found.Uid
		}
		id, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return u, fmt.Errorf("%w: %q: want a name, a number, or %s", ErrUsers, text, anyUser)
		}
		u.ids = append(u.ids, uint32(id))
	}
	return u, nil
}

func (u Users) has(id uint32) bool {
	return u.all || int(id) == os.Geteuid() || slices.Contains(u.ids, id)
}

// userName returns the name of a user, or the number where it has none.
func userName(id uint32) string {
	number := strconv.FormatUint(uint64(id), 10)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}

// excludeForeign excludes the sockets of users that the operator has not admitted: any user of the
// machine may listen, and answer as an engine does. It says so once for each user.
func (d *discovery) excludeForeign(sockets []listenSocket) {
	foreign := map[uint32]int{}
	for _, l := range sockets {
		if d.cfg.Users.has(l.user) || d.namedAt(l) != nil {
			continue
		}
		foreign[l.user]++
		d.exclude(l)
		for _, other := range sockets { // that lead to the same server, as 0.0.0.0 and :: do
			if slices.ContainsFunc(other.dialAddresses(), func(addr string) bool { return leadsTo("http://"+addr, l) }) {
				d.exclude(other)
			}
		}
		for url, w := range d.workers {
			if !w.Named && leadsTo(url, l) {
				w.lastSeen = time.Time{} // another user has taken the port of a worker
			}
		}
	}
	var news []string
	for _, id := range slices.Sorted(maps.Keys(foreign)) {
		if name := userName(id); !d.warned["user "+name] {
			d.warned["user "+name] = true
			news = append(news, fmt.Sprintf("%s (%d)", name, foreign[id]))
		}
	}
	if len(news) > 0 && !d.cfg.NoDiscovery {
		d.log.Info("listening sockets of other users are not asked; if workers are among them, admit their user with --find-user",
			"users", strings.Join(news, ", "))
	}
}

// exclude excludes a socket that is, or leads to, a foreign one.
func (d *discovery) exclude(l listenSocket) {
	c := d.sockets[l]
	if c.foreign || d.namedAt(l) != nil {
		return
	}
	name := userName(l.user)
	c.foreign, c.next, c.reason = true, time.Time{}, "a socket of user "+name+" is not asked: --find-user "+name+" admits it"
	if d.cfg.Users.has(l.user) {
		c.reason = "a socket of another user takes its connections"
	} else if isSGLang(c.command) && !d.cfg.NoDiscovery {
		d.log.Warn("an engine of another user is not used", "listen", l.addr, "pid", c.pid, "user", name, "admit", "--find-user "+name)
	}
}

// ForeignListener reports whether a user other than this process's and root listens where a URL of
// this machine leads, and which.
func ForeignListener(url string) (name string, foreign bool, err error) {
	sockets, err := readSockets("/proc")
	if err != nil {
		return "", false, fmt.Errorf("cannot look who listens at %s: %w", url, err)
	}
	for _, l := range sockets {
		if leadsTo(url, l) && l.user != 0 && int(l.user) != os.Geteuid() {
			return userName(l.user), true, nil
		}
	}
	return "", false, nil
}
