package discover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/regularfile"
)

// The needed parts of etcd's API, by the names of its JSON gateway: bytes are in base64, 64-bit
// numbers in quotes, and zeros are left out.
type (
	etcdKV struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
	}
	etcdHeader struct {
		Revision int64 `json:"revision,string"`
	}
	etcdRange struct {
		Key      []byte `json:"key"`
		End      []byte `json:"range_end"`
		KeysOnly bool   `json:"keys_only,omitempty"`
		Limit    int64  `json:"limit,omitempty,string"`
		From     int64  `json:"min_mod_revision,omitempty,string"`
	}
	etcdRangeAnswer struct {
		Header etcdHeader `json:"header"`
		KVs    []etcdKV   `json:"kvs"`
		Count  int64      `json:"count,string"` // of all keys in the range, beyond the limit too
	}
	etcdWatch struct {
		Create struct {
			Key  []byte `json:"key"`
			End  []byte `json:"range_end"`
			From int64  `json:"start_revision,string"`
		} `json:"create_request"`
	}
	etcdEvent struct {
		Type string `json:"type"` // DELETE; else it was put
		KV   etcdKV `json:"kv"`
	}
	etcdNews struct {
		Result struct {
			Header    etcdHeader  `json:"header"`
			Canceled  bool        `json:"canceled"`
			Reason    string      `json:"cancel_reason"`
			Compacted int64       `json:"compact_revision,string"`
			Events    []etcdEvent `json:"events"`
		} `json:"result"`
		Error *etcdError `json:"error"`
	}
	etcdError struct {
		Message string `json:"message"`
	}
)

const (
	// etcdPatience bounds one request and the head of a watch.
	etcdPatience = 5 * time.Second
	// etcdCheck is the time between two checks of a silent watch: its member may be gone,
	// stopped or cut off from the others, and a middlebox may hold the dead connection open.
	etcdCheck = 10 * time.Second
)

// etcdAPI is the address of etcd with this process's credentials.
type etcdAPI struct {
	bases           []string // URLs of members
	files           tlsFiles
	user            string
	passwordFile    string // "": there is none
	patience, check time.Duration
	longest         int // bytes of a message of a watch
}

// password reads the user's password, which is changed now and then.
func (a *etcdAPI) password() (string, error) {
	if a.passwordFile == "" {
		return "", nil
	}
	password, err := regularfile.Read(a.passwordFile, maxFile)
	if err != nil {
		return "", fmt.Errorf("cannot read the password: %w", err)
	}
	return strings.TrimSpace(string(password)), nil
}

// etcdClient talks to one member at a time. It belongs to one goroutine, and while a watch runs
// to the goroutine that checks it.
type etcdClient struct {
	*http.Client
	api   *etcdAPI
	at    int    // the member
	token string // "": not authenticated yet, or without a user
}

// client begins at any member, so that many routers spread over them.
func (a *etcdAPI) client() *etcdClient {
	return &etcdClient{api: a, at: rand.N(len(a.bases))}
}

// connect begins anew, with the files as they are now.
func (c *etcdClient) connect() error {
	a := c.api
	settings, err := a.files.load()
	if err != nil {
		return err
	}
	dialer := &net.Dialer{Timeout: a.patience, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: a.check, Interval: a.patience, Count: 2}}
	c.Client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: settings, TLSHandshakeTimeout: a.patience, ResponseHeaderTimeout: a.patience,
		IdleConnTimeout: time.Minute, DialContext: dialer.DialContext, Proxy: http.ProxyFromEnvironment,
	}}
	return nil
}

// next turns to another member.
func (c *etcdClient) next() { c.at = (c.at + 1) % len(c.api.bases) }

// list returns all keys of a range.
func (c *etcdClient) list(ctx context.Context, of etcdRange) (answer etcdRangeAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.api.patience)
	defer cancel()
	body, err := c.post(ctx, "/v3/kv/range", of)
	if err != nil {
		return answer, err
	}
	defer body.Close()
	err = json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&answer)
	return answer, err
}

// watchProgress is the progress of a watch.
type watchProgress struct{ revision, keys atomic.Int64 }

// watch calls changed with each change of a range after seen, until it fails: with errGone where
// etcd has compacted some of them. changed maintains seen.keys; watch maintains seen.revision.
func (c *etcdClient) watch(ctx context.Context, of etcdRange, seen *watchProgress, changed func([]etcdEvent) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var order etcdWatch
	order.Create.Key, order.Create.End, order.Create.From = of.Key, of.End, seen.revision.Load()+1
	body, err := c.post(ctx, "/v3/watch", order)
	if err != nil {
		return err
	}
	defer body.Close()
	var checking sync.WaitGroup
	defer checking.Wait()
	defer stop(nil)
	checking.Go(func() { stop(c.checkWatch(ctx, of, seen)) })
	for messages := newMessages(body, c.api.longest); ; {
		var news etcdNews
		if err := messages.next(&news); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("the watch has ended: %w", err)
		}
		r := &news.Result
		switch {
		case news.Error != nil:
			return errors.New(news.Error.Message)
		case r.Compacted > 0:
			return errGone
		case r.Canceled:
			return errors.New(r.Reason)
		case len(r.Events) > 0:
			if err := changed(r.Events); err != nil {
				return err
			}
			seen.revision.Store(r.Header.Revision)
		}
	}
}

var errWatchBehind = errors.New("the watch tells nothing, though keys have changed")

// checkWatch asks the watch's member now and then whether the watch lacks changes. It returns
// why the watch is useless.
func (c *etcdClient) checkWatch(ctx context.Context, of etcdRange, seen *watchProgress) error {
	of.KeysOnly, of.Limit = true, 1
	tick := time.NewTicker(c.api.check)
	defer tick.Stop()
	for missed := int64(-1); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		at := seen.revision.Load()
		of.From = at + 1
		answer, err := c.list(ctx, of)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case len(answer.KVs) == 0 && answer.Count == seen.keys.Load():
			missed = -1
		case missed == at: // no change came since the last check, which lacked some too
			return errWatchBehind
		default:
			missed = at
		}
	}
}

// post sends a question to the member and returns its answer, which the caller closes.
func (c *etcdClient) post(ctx context.Context, path string, question any) (io.ReadCloser, error) {
	if c.api.user != "" && c.token == "" {
		if err := c.authenticate(ctx); err != nil {
			return nil, err
		}
	}
	body, status, err := c.send(ctx, path, question)
	if c.token != "" && (status == http.StatusUnauthorized || err != nil && strings.Contains(err.Error(), oldUsers)) {
		// Tokens end, members that restart know none, and a change of users ends the old ones.
		if err := c.authenticate(ctx); err != nil {
			return nil, err
		}
		body, _, err = c.send(ctx, path, question)
	}
	return body, err
}

// oldUsers is in etcd's refusal of a token of earlier users, of status 400 (ErrAuthOldRevision).
const oldUsers = "revision of auth store is old"

func (c *etcdClient) authenticate(ctx context.Context) error {
	c.token = ""
	password, err := c.api.password()
	if err != nil {
		return err
	}
	body, _, err := c.send(ctx, "/v3/auth/authenticate", map[string]string{"name": c.api.user, "password": password})
	if err != nil {
		return fmt.Errorf("cannot log in as %s: %w", c.api.user, err)
	}
	defer body.Close()
	var answer struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(io.LimitReader(body, maxFile)).Decode(&answer); err != nil {
		return fmt.Errorf("cannot log in as %s: %w", c.api.user, err)
	}
	c.token = answer.Token
	return nil
}

func (c *etcdClient) send(ctx context.Context, path string, question any) (answer io.ReadCloser, status int, err error) {
	data, err := json.Marshal(question)
	if err != nil {
		return nil, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.api.bases[c.at]+path, bytes.NewReader(data))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	// A member that is cut off from the others then fails.
	req.Header.Set("Grpc-Metadata-hasleader", "true")
	if c.token != "" {
		req.Header.Set("Authorization", c.token)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, 0, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, resp.StatusCode, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	var why etcdError
	if json.Unmarshal(text, &why) != nil || why.Message == "" {
		why.Message = strings.TrimSpace(string(text))
	}
	if resp.StatusCode == http.StatusNotFound {
		why.Message += ": is this etcd 3.4 or later, with --enable-grpc-gateway?"
	}
	return nil, resp.StatusCode, fmt.Errorf("%s said %d: %s", c.api.bases[c.at], resp.StatusCode, why.Message)
}

// etcdPrefix is the range of all keys that begin with prefix.
func etcdPrefix(prefix string) etcdRange {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return etcdRange{Key: []byte(prefix), End: end[:i+1]}
		}
	}
	return etcdRange{Key: []byte(prefix), End: []byte{0}} // all keys from prefix on
}
