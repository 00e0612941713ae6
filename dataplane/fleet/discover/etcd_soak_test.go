//go:build soak

package discover_test

import (
	"net"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
)

// etcdProgram builds etcd's own server from testdata/etcd, a module of its own.
var etcdProgram = sync.OnceValues(func() (string, error) {
	return natstest.Build("testdata/etcd", "go.etcd.io/etcd/server/v3")
})

// etcdServer is one etcd process.
type etcdServer struct {
	t       testing.TB
	program string
	args    []string
	addr    string // host:port
	cmd     *exec.Cmd
}

// startEtcd runs etcd until the test ends.
func startEtcd(t testing.TB, with etcdSettings) *etcdServer {
	t.Helper()
	program, err := etcdProgram()
	require.NoError(t, err)
	s := &etcdServer{t: t, program: program, addr: natstest.Address(t)}
	scheme, peer := "http://", "http://"+natstest.Address(t)
	if with.authority != "" {
		scheme = "https://"
		s.args = []string{"--cert-file=" + with.own.Cert, "--key-file=" + with.own.Key, "--trusted-ca-file=" + with.authority, "--client-cert-auth"}
	}
	if with.noGateway {
		s.args = append(s.args, "--enable-grpc-gateway=false")
	}
	if with.shortTokens {
		s.args = append(s.args, "--auth-token-ttl=1")
	}
	s.args = append(s.args,
		"--data-dir="+t.TempDir(), "--unsafe-no-fsync", "--bcrypt-cost=4", "--log-level=panic",
		"--listen-client-urls="+scheme+s.addr, "--advertise-client-urls="+scheme+s.addr,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	t.Cleanup(s.kill)
	s.run()
	return s
}

// run starts the process and returns when it listens.
func (s *etcdServer) run() {
	s.t.Helper()
	s.cmd = exec.Command(s.program, s.args...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(s.t, s.cmd.Start())
	await(s.t, "etcd at "+s.addr, func() bool {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func (s *etcdServer) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}
