package discover

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Go's own resolver does not distinguish NOERROR without records from NXDOMAIN (both are "no
// such host"), which is the difference between no worker and no answer. So this file sends the
// query itself.

// record is one SRV record.
type record struct {
	target string
	port   uint16
}

// asker asks name servers.
type asker struct {
	servers []string // host:port; none: the system's
}

const (
	resolvConf = "/etc/resolv.conf"
	// askFor bounds one question to one server, and the TCP that may follow it.
	askFor = 2 * time.Second
	// udpSize is the size of a UDP answer that is not fragmented (DNS flag day 2020).
	udpSize = 1232
)

// ask returns the name's SRV records from the first server that knows.
func (a *asker) ask(ctx context.Context, name string) ([]record, error) {
	servers := a.servers
	if len(servers) == 0 {
		var err error
		if servers, err = systemServers(resolvConf); err != nil {
			return nil, err
		}
	}
	var errs []error
	for _, server := range servers {
		records, err := askServer(ctx, server, name)
		if err == nil {
			return records, nil
		}
		errs = append(errs, fmt.Errorf("cannot get SRV records of %s from %s: %w", name, server, err))
	}
	return nil, errors.Join(errs...)
}

// askServer asks by UDP, and by TCP where the answer is too long for that.
func askServer(ctx context.Context, server, name string) ([]record, error) {
	id := uint16(rand.Uint32()) //nolint:gosec // G404: it tells answers apart; the port is the kernel's choice
	question, err := query(name, id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	for _, network := range []string{"udp", "tcp"} {
		reply, err := exchange(ctx, network, server, question, id)
		if err != nil {
			return nil, err
		}
		records, truncated, err := answer(reply, name)
		if err != nil || !truncated {
			return records, err
		}
	}
	return nil, errors.New("the answer is cut short even over TCP")
}

// query is the wire form of the question, with EDNS0 so that answers of up to udpSize come by
// UDP.
func query(name string, id uint16) ([]byte, error) {
	n, err := dnsmessage.NewName(name)
	if err != nil {
		return nil, err
	}
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: id, RecursionDesired: true})
	var opt dnsmessage.ResourceHeader
	err = errors.Join(
		b.StartQuestions(),
		b.Question(dnsmessage.Question{Name: n, Type: dnsmessage.TypeSRV, Class: dnsmessage.ClassINET}),
		b.StartAdditionals(),
		opt.SetEDNS0(udpSize, dnsmessage.RCodeSuccess, false),
		b.OPTResource(opt, dnsmessage.OPTResource{}),
	)
	if err != nil {
		return nil, err
	}
	return b.Finish()
}

// exchange sends a question and returns the answer with its id.
func exchange(ctx context.Context, network, server string, question []byte, id uint16) ([]byte, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if network == "tcp" {
		return exchangeTCP(conn, question)
	}
	if _, err := conn.Write(question); err != nil {
		return nil, err
	}
	reply := make([]byte, 64<<10)
	for {
		n, err := conn.Read(reply)
		if err != nil {
			return nil, err
		}
		if n >= 2 && binary.BigEndian.Uint16(reply) == id { // else an answer to another query
			return reply[:n], nil
		}
	}
}

// exchangeTCP is exchange over a stream, where lengths come first.
func exchangeTCP(conn net.Conn, question []byte) ([]byte, error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...)); err != nil {
		return nil, err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, reply)
	return reply, err
}

// answer reads the SRV records of name, also behind aliases. Codes other than NOERROR are errors.
func answer(reply []byte, name string) (records []record, truncated bool, err error) {
	var p dnsmessage.Parser
	h, err := p.Start(reply)
	switch {
	case err != nil:
		return nil, false, err
	case !h.Response:
		return nil, false, errors.New("the reply is not an answer")
	case h.RCode != dnsmessage.RCodeSuccess:
		return nil, false, fmt.Errorf("the answer is %s", strings.TrimPrefix(h.RCode.String(), "RCode"))
	case h.Truncated:
		return nil, true, nil
	}
	q, err := p.Question()
	if err != nil || q.Type != dnsmessage.TypeSRV || !strings.EqualFold(q.Name.String(), name) {
		return nil, false, errors.Join(errors.New("the answer is to another question"), err)
	}
	if err := p.SkipAllQuestions(); err != nil {
		return nil, false, err
	}
	for {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return records, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		if h.Type != dnsmessage.TypeSRV {
			if err := p.SkipAnswer(); err != nil {
				return nil, false, err
			}
			continue
		}
		r, err := p.SRVResource()
		if err != nil {
			return nil, false, err
		}
		records = append(records, record{r.Target.String(), r.Port})
	}
}

// systemServers reads the name servers from resolv.conf at each query: they change with the
// network.
func systemServers(path string) (servers []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot find name servers: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == "nameserver" {
			servers = append(servers, net.JoinHostPort(words[1], "53"))
		}
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("cannot find name servers: %s names none", path)
	}
	return servers, nil
}
