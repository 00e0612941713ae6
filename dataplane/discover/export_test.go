package discover

import (
	"net"
	"strconv"
	"strings"
)

// SRVAnswer reads an answer as host:port.
func SRVAnswer(reply []byte, name string) (targets []string, truncated bool, err error) {
	records, truncated, err := answer(reply, name)
	for _, r := range records {
		targets = append(targets, net.JoinHostPort(strings.TrimSuffix(r.target, "."), strconv.Itoa(int(r.port))))
	}
	return targets, truncated, err
}
