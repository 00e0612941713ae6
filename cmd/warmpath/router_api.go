package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/valyala/fasthttp"
)

// routerEnv names the router for every command that asks one.
const routerEnv = "WARMPATH_ROUTER"

// localRouter is where `warmpath up` and `warmpath serve` listen by default.
const localRouter = "http://127.0.0.1:8000"

// routerOptions locate the operator API of a running router.
type routerOptions struct{ url, key string }

func (o *routerOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.url, "router", "", "`URL` of the router's operator API (default $"+routerEnv+", or "+localRouter+")")
	secretFlag(f, &o.key, "operator-key", "bearer token of the router's operator API")
}

// base is the URL in force.
func (o *routerOptions) base() string {
	url := cmp.Or(o.url, os.Getenv(routerEnv), localRouter)
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	return strings.TrimRight(url, "/")
}

var errRouter = errors.New("refused by the router")

// ask sends one request to the operator API and returns the answer's body. A body of nil is a GET.
// The path may have a query.
func (o *routerOptions) ask(path string, body []byte, patience time.Duration) ([]byte, error) {
	return o.send(methodOf(body), path, body, patience)
}

// send is ask with any method.
func (o *routerOptions) send(method, path string, body []byte, patience time.Duration) ([]byte, error) {
	base := o.base()
	status, answer, err := sendHTTP(method, base, path, o.key, body, patience)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot ask the router at %s: %w: is it running, and is that its operator API? Name it with --router or %s", base, err, routerEnv)
	case status == fasthttp.StatusUnauthorized && o.key == "":
		return nil, fmt.Errorf("%w at %s: it needs its operator key: give --operator-key or WARMPATH_OPERATOR_KEY", errRouter, base)
	case status == fasthttp.StatusUnauthorized:
		return nil, fmt.Errorf("%w at %s: the operator key is wrong: check --operator-key or WARMPATH_OPERATOR_KEY", errRouter, base)
	case status != fasthttp.StatusOK:
		return nil, fmt.Errorf("%w at %s with %d: %s", errRouter, base, status, messageOf(answer))
	}
	return answer, nil
}

// askHTTP sends a JSON body, or a GET without one, and returns the answer's status and body.
func askHTTP(base, path, key string, body []byte, patience time.Duration) (int, []byte, error) {
	return sendHTTP(methodOf(body), base, path, key, body, patience)
}

func methodOf(body []byte) string {
	if body == nil {
		return fasthttp.MethodGet
	}
	return fasthttp.MethodPost
}

func sendHTTP(method, base, path, key string, body []byte, patience time.Duration) (int, []byte, error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(strings.TrimRight(base, "/") + path)
	req.Header.SetMethod(method)
	if body != nil {
		req.Header.SetContentType("application/json")
		req.SetBodyRaw(body)
	}
	if key != "" {
		req.Header.Set(fasthttp.HeaderAuthorization, "Bearer "+key)
	}
	if err := fasthttp.DoTimeout(req, resp, patience); err != nil {
		if dial := (*fasthttp.ErrDialWithUpstream)(nil); errors.As(err, &dial) {
			err = dial.Unwrap() // it has the address too
		}
		return 0, nil, err
	}
	return resp.StatusCode(), append([]byte(nil), resp.Body()...), nil
}

// messageOf is the sentence of an error answer, or the whole of it.
func messageOf(body []byte) string {
	var answer struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err == nil && answer.Error.Message != "" {
		return answer.Error.Message
	}
	return strings.TrimSpace(string(body))
}
