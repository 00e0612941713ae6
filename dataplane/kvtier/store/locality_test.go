//go:build cgo && linux

package store

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// startAs runs this test binary as a store or an engine of TestSoak, as another user. It ends
// with the test.
func startAs(t *testing.T, binary string, as nixltest.User, env string, spec any) (lines func() soakCounts) {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
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

func statsAt(t *testing.T, address string) (s Stats) {
	t.Helper()
	resp, err := http.Get("http://" + address + "/tier")
	if err != nil {
		return s // not yet
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTiersOfTwoUsers has a store of one user pull from one of another: by NIXL only with CMA, as
// UCX over TCP ends a process whose reader stalls.
func TestTiersOfTwoUsers(t *testing.T) {
	nixltest.RequireRoot(t)
	library := nixltest.Library(t)
	nobody := nixltest.Nobody()
	tests := []struct {
		name       string
		has, pulls nixltest.User
		nixl       bool
	}{
		{"one user", nobody, nobody, true},
		{"two users", nixltest.User{UID: 65533, GID: 65533}, nobody, false},
		{"two PID namespaces", nixltest.User{NewPIDs: true}, nixltest.User{NewPIDs: true}, false},
	}
	for _, test := range tests { // TestPlaces has the other reasons
		t.Run(test.name, func(t *testing.T) {
			binary, library := nixltest.CopyForAllUsers(t, library)
			var nodes [2]soakNode
			for i := range nodes {
				dir := filepath.Join(filepath.Dir(binary), strconv.Itoa(i))
				if err := os.Mkdir(dir, 0o777); err != nil { //nolint:gosec // for the store of any user
					t.Fatal(err)
				}
				if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // likewise
					t.Fatal(err)
				}
				nodes[i] = soakNode{
					Name: "node" + strconv.Itoa(i), Socket: filepath.Join(dir, "kv.sock"), Listen: natstest.Address(t), HTTP: natstest.Address(t),
					Bytes: minBytes, Library: library,
				}
			}
			nodes[1].Peers = []string{nodes[0].Listen}
			startAs(t, binary, test.has, soakNodeEnv, nodes[0])
			eventually(t, "the first tier", func() bool { return statsAt(t, nodes[0].HTTP).NIXL })
			startAs(t, binary, test.pulls, soakNodeEnv, nodes[1])
			eventually(t, "the second tier", func() bool { s := statsAt(t, nodes[1].HTTP); return s.NIXL && s.Peers == 1 })
			on := dialTier(t, &Store{cfg: Config{Socket: nodes[0].Socket}}, "m")
			here := dialTier(t, &Store{cfg: Config{Socket: nodes[1].Socket}}, "m")
			hashes := on.store(1, 300)
			if n := here.exists(hashes, patience); n != 300 {
				t.Fatalf("%d of 300 pages are expected", n)
			}
			if n := here.check(1, hashes, patience); n != 300 {
				t.Errorf("%d of 300 pages came, or not as they were", n)
			}
			s := statsAt(t, nodes[1].HTTP)
			if want := map[bool]int64{true: 300}[test.nixl]; s.Pulled != 300 || s.PulledNIXL != want || s.PullFailures != 0 {
				t.Errorf("pulled %d pages, %d by NIXL, %d failures; want 300, %d, 0", s.Pulled, s.PulledNIXL, s.PullFailures, want)
			}
		})
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
