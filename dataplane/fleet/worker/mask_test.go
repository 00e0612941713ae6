package worker_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// A secret in the query of a URL, which workers have none of, is in no error either.
func TestQueriesAreNotPrinted(t *testing.T) {
	r := worker.NewRegistry(worker.Config{}, nil)
	for _, url := range []string{
		"http://h:1?token=secret", "http://h:1/?api_key=secret", "h:1?password=secret", "http://h:bad?key=secret", "http://h:1/%zz?key=secret",
		"http://h:1/#token=secret", "ftp://h:1?sig=secret", "http://h:1/?a=b&auth=secret%zz",
	} {
		_, err := r.Add(url)
		require.ErrorIs(t, err, worker.ErrBadURL, url)
		assert.NotContains(t, err.Error(), "secret")
		for _, err := range []error{r.Remove(url), func() error { _, err := r.Get(url); return err }()} {
			assert.NotContains(t, err.Error(), "secret")
		}
	}
}

// A URL with a password is refused, and no error has a part of the password, however wrong the URL
// is beside it.
func TestPasswordsAreNotPrinted(t *testing.T) {
	r := worker.NewRegistry(worker.Config{}, nil)
	for _, url := range []string{
		"http://u:secret@h:1", "https://secret@h:1", "http://u:secret@h:bad", "http://u:secret@h", "http://u:sec/secret@h:1", "http://u:sec#secret@h:1",
		"http://u:sec?secret@h:1", "http://u:sec secret@h:1", "http://u:sec%zzsecret@h:1", "http://u:sec@secret@h:1", "http://u:\"secret@h:1",
		"u:secret@h:1", "ftp://u:secret@h:1", "http://[u:secret@h:1", "u:secret://x@h:1", "http://u:secret@h:1/path",
	} {
		_, err := r.Add(url)
		require.ErrorIs(t, err, worker.ErrBadURL, url)
		assert.NotContains(t, err.Error(), "secret")
		assert.NotContains(t, err.Error(), "sec")
		assert.Contains(t, err.Error(), "xxxxx@h")
		_, err = worker.ParsePrefill(url + ",bad")
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "sec")
		_, err = worker.ParsePrefill(url + ",host:bad:1")
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "sec")
		for _, err := range []error{r.Remove(url), func() error { _, err := r.Get(url); return err }()} {
			require.ErrorIs(t, err, worker.ErrUnknown)
			assert.NotContains(t, err.Error(), "sec")
		}
	}
}
