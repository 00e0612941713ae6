package upstream

import (
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// date is the value of Date in one second.
type date struct {
	second int64
	text   []byte
}

var lastDate atomic.Pointer[date]

// setDate dates an answer that has no date (RFC 9110 6.6.1).
func setDate(h *fasthttp.ResponseHeader, now time.Time) {
	d := lastDate.Load()
	if d == nil || d.second != now.Unix() {
		d = &date{now.Unix(), fasthttp.AppendHTTPDate(nil, now.UTC())}
		lastDate.Store(d)
	}
	h.SetCanonical(headerDate, d.text)
}

var headerDate = []byte(fasthttp.HeaderDate)
