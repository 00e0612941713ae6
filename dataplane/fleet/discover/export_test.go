package discover

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"
)

// SRVAnswer reads an answer as host:port.
func SRVAnswer(reply []byte, name string) (targets []string, truncated bool, err error) {
	records, truncated, err := answer(reply, name)
	for _, r := range records {
		targets = append(targets, net.JoinHostPort(strings.TrimSuffix(r.target, "."), strconv.Itoa(int(r.port))))
	}
	return targets, truncated, err
}

// CheckOften has an etcd source find dead watches sooner than etcdCheck.
func CheckOften(s Source, check, patience time.Duration) {
	e := s.(*etcd)
	e.api.check, e.api.patience = check, patience
}

// PingOften has a Kubernetes source find dead connections sooner than kubeSilence.
func PingOften(s Source, silence time.Duration) { s.(*kube).api.silence = silence }

// ShortWatches has a Kubernetes source ask for watches that end sooner than watchFor.
func ShortWatches(s Source, life time.Duration) { s.(*kube).api.life = life }

// ShortMessages bounds the messages of a source's watches.
func ShortMessages(s Source, bytes int) {
	switch s := s.(type) {
	case *etcd:
		s.api.longest = bytes
	case *kube:
		s.api.longest = bytes
	}
}

// ErrGone ends a watch of a compacted revision.
var ErrGone = errGone

// WatchFromThePast watches keys below prefix from a revision on, for so long.
func WatchFromThePast(base, prefix string, revision int64, limit time.Duration) error {
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	api := etcdAPI{bases: []string{base}, patience: etcdPatience, check: etcdCheck, longest: maxAnswer}
	client := api.client()
	if err := client.connect(); err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	seen := &watchProgress{}
	seen.revision.Store(revision - 1)
	return client.watch(ctx, etcdPrefix(prefix), seen, func([]etcdEvent) error { return nil })
}
