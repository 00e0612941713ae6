package secrets_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/secrets"
)

func TestMaskURL(t *testing.T) {
	for text, want := range map[string]string{
		"http://h:1":                             "http://h:1",
		"nats://u:p@h:1":                         "nats://xxxxx@h:1",
		"nats://token@h:1":                       "nats://xxxxx@h:1",
		"http://u:p/s@h:1":                       "http://xxxxx@h:1",
		"http://u:p?s@h:1":                       "http://xxxxx@h:1",
		"http://u:p#s@h:1":                       "http://xxxxx@h:1",
		"http://u:p@s@h:1":                       "http://xxxxx@h:1",
		"u:p@h:1":                                "xxxxx@h:1",
		"u:p://x@h:1":                            "xxxxx@h:1",
		"etcd:u:p@h:2379/workers":                "xxxxx@h:2379/workers",
		"etcd:h:2379/workers?user=a@b":           "etcd:h:2379/workers?user=a@b",
		"https://u:p@h/keys?appid=1&token=a@b":   "https://xxxxx@b",
		"https://h/keys?appid=1&token=a@b":       "https://h/keys?appid=1&token=xxxxx",
		"https://h/keys?api_key=a&x=b&SIG=c":     "https://h/keys?api_key=xxxxx&x=b&SIG=xxxxx",
		"https://h/#access_token=a":              "https://h/#access_token=xxxxx",
		"h:1?password=a%zz":                      "h:1?password=xxxxx",
		"https://h/?X-Amz-Credential=a;secret=b": "https://h/?X-Amz-Credential=xxxxx;secret=xxxxx",
		"https://h/?key=a&x=b":                   "https://h/?key=xxxxx&x=b",
		"etcd:h/p?cert=/a&key=/b":                "etcd:h/p?cert=/a&key=/b",
		"etcd:h/p?cert=%2Fa&key=%2Fb":            "etcd:h/p?cert=%2Fa&key=%2Fb",
		"https://h/?key=%2aFb&x=b":               "https://h/?key=xxxxx&x=b",
		"/etc/warmpath/jwks.json":                "/etc/warmpath/jwks.json",
	} {
		require.Equal(t, want, secrets.MaskURL(text), text)
	}
}

func TestURLError(t *testing.T) {
	reason := errors.New("refused")
	require.Equal(t, reason, secrets.URLError(&url.Error{Op: "Get", URL: "http://u@h/?token=a", Err: reason}))
	require.Equal(t, reason, secrets.URLError(reason))
}
