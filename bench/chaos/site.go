package chaos

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/freeport"
)

// Keys of clients. The rotating one and the limited one are in the file at times, the wrong one
// never.
const (
	steadyKey = iota
	rotatingKey
	wrongKey
	limitedKey // has one place at all routers together
)

func keyText(key int) string { return "key-of-chaos-" + strconv.Itoa(key) }

const (
	// patience is the longest wait for a state, however slow the machine.
	patience  = 7 * time.Minute
	pollEvery = 50 * time.Millisecond
)

// modes are those of the workers: whole ones first, then prefill and decode workers.
var modes = [...]string{"", "", "", sim.ModePrefill, sim.ModePrefill, sim.ModeDecode, sim.ModeDecode}

const routers = 2

// site is the cluster of processes.
type site struct {
	Config
	dir       string
	sims      []*process
	addrs     []string // of workers
	listed    []string // workers in the routers' configuration; the others have a sidecar
	fronts    []*process
	bases     []string // URLs of routers
	ports     []int    // of routers
	known     map[int]bool
	natsPort  int
	node, hub *process
	authority *authority
	oracle    *sim.Worker
	plain     *http.Client
	clients   []*http.Client // of routers
	releases  []func()
	stopped   func() bool // by a person
	launch    chan func() // to the thread that starts processes

	mu         sync.Mutex
	violations []string
	faults     []*entry // since the last calm
	last       []*entry // for a violation
	ended      []*ask   // requests since the journals were read
	asked      int64
	counts     [fates]int64
	table      map[string]*[fates + 1]int64 // by kind of fault: how often, and the fates beside it
	reasons    map[string]int
	offsets    map[string]int64 // of journals
	twice      int
}

// violate notes a violation.
func (s *site) violate(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	s.violations = append(s.violations, text)
	fmt.Fprintln(s.Progress, "VIOLATION:", text)
}

// refuses reports whether a router that has just started may have found unusable files.
func (s *site) refuses() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.faults, func(e *entry) bool { return e.kind.unusable && (e.ended.IsZero() || time.Since(e.ended) < graceful) })
}

// must notes that the driver itself has failed.
func (s *site) must(err error) {
	if err != nil {
		s.violate("the driver: %v", err)
	}
}

func (s *site) keys() string        { return filepath.Join(s.dir, "keys") }
func (s *site) cert() string        { return filepath.Join(s.dir, "cert.pem") }
func (s *site) certKey() string     { return filepath.Join(s.dir, "key.pem") }
func (s *site) config(i int) string { return filepath.Join(s.dir, fmt.Sprintf("router-%d.yaml", i)) }

// writeConfig writes the configuration of a router, without one of the listed workers or with all.
func (s *site) writeConfig(i, without int) error {
	var b bytes.Buffer
	b.WriteString("worker:\n")
	for n, addr := range s.listed {
		if n != without {
			fmt.Fprintf(&b, "  - http://%s\n", addr)
		}
	}
	return replaceFile(s.config(i), b.Bytes())
}

// writeAllKeys writes the file of keys as it is without a fault.
func (s *site) writeAllKeys() error { return s.writeKeys(steadyKey, rotatingKey, limitedKey) }

func (s *site) writeKeys(list ...int) error {
	var b bytes.Buffer
	for _, key := range list {
		fmt.Fprintf(&b, "client-%d %x", key, sha256.Sum256([]byte(keyText(key))))
		if key == limitedKey {
			b.WriteString(" concurrency=1 requests-per-minute=1000000 tokens-per-minute=1000000000")
		}
		b.WriteString("\n")
	}
	return replaceFile(s.keys(), b.Bytes())
}

// replaceFile writes a file by a rename.
func replaceFile(name string, text []byte) error {
	next := name + ".new"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	if err := os.Rename(next, name); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}

// address holds a port until the run ends.
func (s *site) address() (string, error) {
	addr, release, err := freeport.Hold()
	if err == nil {
		s.releases = append(s.releases, release)
	}
	return addr, err //nolint:wrapcheck // it says enough
}

// process returns one that does not run yet.
func (s *site) process(name string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(s.dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot keep the log of %s: %w", name, err)
	}
	s.releases = append(s.releases, func() { _ = log.Close() })
	env := []string{"WARMPATH_CLUSTER_TOKEN=a-token-of-chaos", "XDG_STATE_HOME=" + s.dir}
	return &process{name: name, args: append([]string{s.Program}, args...), env: env, log: log, violate: s.violate, refuses: s.refuses, launch: s.launch}, nil
}

// prepare makes the files and processes.
func (s *site) prepare() error {
	s.known, s.table, s.reasons, s.offsets = map[int]bool{}, map[string]*[fates + 1]int64{}, map[string]int{}, map[string]int64{}
	s.plain = &http.Client{Timeout: patience / 12}
	var problems []error
	add := func(name string, args ...string) *process {
		p, err := s.process(name, args...)
		problems = append(problems, err)
		return p
	}
	address := func() string {
		addr, err := s.address()
		problems = append(problems, err)
		return addr
	}
	told := s.addWorkers(add, address)
	nats, natsHTTP := address(), address()
	s.natsPort = portIn(nats)
	s.known[s.natsPort] = true
	s.hub = add("nats", "serve", "--listen", natsHTTP, "--cluster-listen", nats, "--cluster-store", filepath.Join(s.dir, "nats"))
	s.node = add("node", append(told, "--cluster", "nats://"+nats)...)
	problems = append(problems, s.writeAllKeys(), s.authority.issue(s.cert(), s.certKey()))
	for i := range routers {
		s.addRouter(i, nats, add, address())
		problems = append(problems, s.writeConfig(i, -1))
	}
	return errors.Join(problems...)
}

// adder makes a process with arguments.
type adder func(name string, args ...string) *process

// addWorkers makes the workers, and returns the arguments of the sidecar that has half of them.
func (s *site) addWorkers(add adder, address func() string) (told []string) {
	told = []string{"node", "--name", "node", "--listen", "127.0.0.1:0", "--no-find"}
	for i, mode := range modes {
		addr := address()
		s.addrs = append(s.addrs, addr)
		s.known[portIn(addr)] = true
		args := []string{"sim", "--listen", addr, "--time-scale", "4", "--cache-pages", "4096", "--journal", s.journal(i)}
		if mode != "" { // a leg without a partner ends within 10 s
			args = append(args, "--mode", mode, "--bootstrap-timeout", "40s", "--waiting-timeout", "40s", "--decode-cache")
		}
		if mode == sim.ModePrefill {
			args = append(args, "--bootstrap-port", strconv.Itoa(portIn(address())))
		}
		s.sims = append(s.sims, add(fmt.Sprintf("worker-%d%s", i, mode), args...))
		if i%2 == 0 {
			s.listed = append(s.listed, addr)
		} else {
			told = append(told, "--worker", "http://"+addr)
		}
	}
	return told
}

// addRouter makes router i and its clients. One of the routers has TLS.
func (s *site) addRouter(i int, nats string, add adder, addr string) {
	args := []string{
		"serve", "--listen", addr, "--config", s.config(i), "--cluster", "nats://" + nats, "--client-keys", s.keys(),
		"--access-log", filepath.Join(s.dir, fmt.Sprintf("access-%d", i)), "--snapshot", filepath.Join(s.dir, fmt.Sprintf("snapshot-%d", i)), "--snapshot-interval", "2s",
		"--client-stall-timeout", "5s", "--client-request-timeout", "5s", "--answer-headers", "all",
		// This machine may be busy: nothing is held to the times of a quiet one.
		"--probe-timeout", "5s", "--hang-after", "8s", "--queue-timeout", "1m", "--stall-timeout", "30s", "--first-byte-timeout", "1m",
	}
	base := "http://"
	if i == 1 {
		args = append(args, "--tls-cert", s.cert(), "--tls-key", s.certKey())
		base = "https://"
	}
	s.bases, s.ports = append(s.bases, base+addr), append(s.ports, portIn(addr))
	s.fronts = append(s.fronts, add(fmt.Sprintf("router-%d", i), args...))
	transport := &http.Transport{MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{RootCAs: s.authority.pool, MinVersion: tls.VersionTLS12}}
	s.clients = append(s.clients, &http.Client{Transport: transport, Timeout: patience})
}

func portIn(addr string) int {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	return n
}

func (s *site) journal(i int) string { return filepath.Join(s.dir, fmt.Sprintf("journal-%d", i)) }

func (s *site) processes() []*process {
	return append(append([]*process{s.hub, s.node}, s.sims...), s.fronts...)
}

// launchAll starts processes until ctx ends. They end with its thread, as with a killed driver.
func (s *site) launchAll(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case start := <-s.launch:
			start()
		case <-ctx.Done():
			return
		}
	}
}

func (s *site) startProcesses() error {
	for _, p := range s.processes() {
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) endProcesses() {
	for _, p := range s.processes() {
		p.end(syscall.SIGKILL)
	}
}

// release gives ports and logs back.
func (s *site) release() {
	for _, release := range s.releases {
		release()
	}
}

func (s *site) closeIdle() {
	for _, c := range append(slices.Clone(s.clients), s.plain) {
		c.CloseIdleConnections()
	}
}

// startOracle runs the worker that knows all answers.
func (s *site) startOracle(ctx context.Context, group *sync.WaitGroup) (err error) {
	if s.oracle, err = sim.New(sim.Config{TimeScale: 1e6, Log: slog.New(slog.DiscardHandler)}); err != nil {
		return fmt.Errorf("cannot start the oracle: %w", err)
	}
	group.Go(func() {
		if err := s.oracle.Run(ctx); err != nil {
			s.must(err)
		}
	})
	return nil
}

// dial connects to a router.
func (s *site) dial(ctx context.Context, i int) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", s.ports[i]))
	if err != nil || s.bases[i][:5] == "http:" {
		return conn, err //nolint:wrapcheck // nobody reads it
	}
	return tls.Client(conn, &tls.Config{RootCAs: s.authority.pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}), nil
}

// authority signs the routers' certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority() (*authority, error) {
	a := &authority{pool: x509.NewCertPool()}
	cert, key, err := a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	if err != nil {
		return nil, err
	}
	a.cert, a.key = cert, key
	a.pool.AddCert(cert)
	return a, nil
}

func (a *authority) sign(form *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a key: %w", err)
	}
	form.SerialNumber = big.NewInt(time.Now().UnixNano())
	form.NotBefore, form.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(48*time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = form, key
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot sign: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read a certificate: %w", err)
	}
	return cert, key, nil
}

// issue writes a new certificate and its key, one after the other.
func (a *authority) issue(certFile, keyFile string) error {
	cert, key, err := a.sign(&x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("cannot encode a key: %w", err)
	}
	return errors.Join(replaceFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})),
		replaceFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}
