//go:build cgo && linux

package store

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// startAs runs this test binary as a store or an engine of TestSoak, as another user. It ends
// with the test.
func startAs(t *testing.T, binary string, as nixltest.User, env string, spec any) (lines func() soakCounts) {
	t.Helper()
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	c := exec.Command(binary)
	c.Env = append(os.Environ(), env+"="+string(text), "HOME="+filepath.Dir(binary))
	_, out := as.Start(t, c)
	decoder := json.NewDecoder(out)
	return func() (said soakCounts) {
		if err := decoder.Decode(&said); err != nil {
			t.Fatalf("an engine says nothing: %v", err)
		}
		return said
	}
}

// TestEnginesOfOtherUsers attaches engines of other users and namespaces: only permitted ones
// connect, and none reads a wrong byte.
func TestEnginesOfOtherUsers(t *testing.T) {
	nixltest.RequireRoot(t)
	binary, _ := nixltest.CopyForAllUsers(t, "")
	nobody := nixltest.Nobody()
	tests := []struct {
		name  string
		group string
		as    nixltest.User
		may   bool
	}{
		{"another user", "", nobody, false},
		{"another user of the group", "65534", nobody, true},
		{"another user of another group", "65533", nobody, false},
		{"a PID namespace", "", nixltest.User{NewPIDs: true}, true},
		{"a rootless container", "", nixltest.User{NewUsers: true}, true},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			socket := filepath.Join(filepath.Dir(binary), strconv.Itoa(i)+".sock")
			tier := serve(t, Config{Socket: socket, SocketGroup: test.group})
			said := startAs(t, binary, test.as, soakEngineEnv, soakEngine{Socket: socket})
			var last soakCounts
			eventually(t, "the engine was let in, or refused", func() bool {
				last = said()
				return last.Wrong != "" || test.may && last.Stored > 0 && last.Checked > 0 || !test.may && last.Lost > 2
			})
			if s := tier.Stats(); last.Wrong != "" || (s.Stored > 0) != test.may || s.Refused > 0 {
				t.Errorf("the engine says %+v, the tier %d pages and %d refused", last, s.Stored, s.Refused)
			}
		})
	}
	if err := shareSocket(t.TempDir(), "no such group"); err == nil {
		t.Error("a group that is not there is accepted")
	}
}

func TestPlaces(t *testing.T) {
	base := nixl.ProcessIdentity{Boot: "b", PIDNamespace: "pid:[1]", UserNamespace: "user:[1]", UID: "1 1 1", GID: "2 2 2", Capabilities: 4}
	of := func(edit func(*nixl.ProcessIdentity)) uint64 {
		p := base
		edit(&p)
		return localityOf(&p, "")
	}
	own := of(func(*nixl.ProcessIdentity) {})
	if own == 0 || own != of(func(*nixl.ProcessIdentity) {}) {
		t.Fatalf("the place is %d", own)
	}
	for name, edit := range map[string]func(*nixl.ProcessIdentity){
		"machine": func(p *nixl.ProcessIdentity) { p.Boot = "c" }, "PID namespace": func(p *nixl.ProcessIdentity) { p.PIDNamespace = "pid:[2]" },
		"user namespace": func(p *nixl.ProcessIdentity) { p.UserNamespace = "user:[2]" }, "user": func(p *nixl.ProcessIdentity) { p.UID = "1 3 1" },
		"group": func(p *nixl.ProcessIdentity) { p.GID = "2 3 2" }, "capabilities": func(p *nixl.ProcessIdentity) { p.Capabilities = 0 },
	} {
		if of(edit) == own {
			t.Errorf("another %s is the same place", name)
		}
	}
	for name, edit := range map[string]func(*nixl.ProcessIdentity){
		"hidden": func(p *nixl.ProcessIdentity) { p.Hidden = true }, "unknown": func(p *nixl.ProcessIdentity) { p.GID = "" },
	} {
		if of(edit) != 0 {
			t.Errorf("a %s process has a locality", name)
		}
	}
	t.Setenv("UCX_TLS", "tcp")
	if ownLocality() != 0 {
		t.Error("a locality without CMA")
	}
}
