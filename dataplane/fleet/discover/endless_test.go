package discover_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/discover"
)

// TestEndlessSources: an etcd or an API server whose message never ends, or that names workers without
// end, takes bounded memory, and the known workers stay.
func TestEndlessSources(t *testing.T) {
	var most atomic.Int64 // bytes of one answer
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	keys := func(from, n int, event string) string {
		var b strings.Builder
		for i := range n {
			kv := fmt.Sprintf(`{"key":%q,"value":%q}`, encoded(fmt.Sprintf("/w/%05d", from+i)), encoded(fmt.Sprintf("http://h:%d", 1+from+i)))
			if event != "" {
				kv = `{"type":"PUT","kv":` + kv + `}`
			}
			b.WriteString(strings.Repeat(",", min(i, 1)) + kv)
		}
		return b.String()
	}
	slices := func(from, n int) string {
		var b strings.Builder
		for i := range n {
			name := "s" + strconv.Itoa(from+i)
			b.WriteString(strings.Repeat(",", min(i, 1)) + `{"metadata":{"name":"` + name + `","resourceVersion":"9"},"addressType":"IPv4","ports":[{"name":"http","port":80}],"endpoints":[{"addresses":["10.0.` +
				strconv.Itoa((from+i)/250) + "." + strconv.Itoa((from+i)%250) + `"]}]}`)
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		source, list, watch, trouble string
		longest                      int
	}{
		"etcd, a message":       {"etcd:HOST/w/", `{"header":{"revision":"7"},"kvs":[` + keys(0, 1, "") + `]}`, `{"result":{"events":[{"kv":{"value":"`, "more than", 1 << 20},
		"etcd, changes":         {"etcd:HOST/w/", `{"header":{"revision":"7"},"kvs":[` + keys(0, 1, "") + `]}`, `{"result":{"header":{"revision":"8"},"events":[` + keys(1, 20_000, "put") + `]}}`, "at most", 64 << 20},
		"Kubernetes, a message": {"kubernetes:n/s?api=http://HOST", `{"metadata":{"resourceVersion":"7"},"items":[` + slices(0, 1) + `]}`, `{"type":"ADDED","object":{"metadata":{"name":"`, "more than", 1 << 20},
		"Kubernetes, a list":    {"kubernetes:n/s?api=http://HOST", `{"metadata":{"resourceVersion":"7"},"items":[` + slices(0, 20_000) + `]}`, "", "at most", 64 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			most.Store(0)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/watch") && r.URL.Query().Get("watch") == "" {
					_, _ = w.Write([]byte(tt.list))
					return
				}
				_, _ = w.Write([]byte(tt.watch))
				more := []byte(strings.Repeat("A", 1<<16))
				for n := int64(0); strings.HasSuffix(tt.watch, `"`); n += int64(len(more)) {
					if _, err := w.Write(more); err != nil {
						return
					}
					most.Store(max(most.Load(), n))
				}
				<-r.Context().Done()
			}))
			defer server.Close()
			defer server.CloseClientConnections()
			d, s := followTuned(t, strings.Replace(tt.source, "HOST", server.Listener.Addr().String(), 1), func(s discover.Source) {
				discover.ShortMessages(s, tt.longest)
			})
			troubled(t, s, tt.trouble)
			require.Less(t, most.Load(), int64(64<<20), "with the buffers of the sockets")
			specs, _ := d.last()
			require.LessOrEqual(t, len(specs), 1)
		})
	}
}
