package lint_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/prompt/lint"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestSampler(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := lint.NewSampler(1)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		require.Nil(t, s.Report())
		for i := range 20 {
			prompt := body(t, "m", "system", fmt.Sprintf("It is %d:%02d. ", i%24, i)+words(1, 200), "user", words(uint64(i), 20))
			s.Offer(prompt)
			clear(prompt) // it was copied
			synctest.Wait()
		}
		s.Offer([]byte(`{"input":"no prompt"}`))
		s.Offer(bytes.Repeat([]byte{' '}, 1<<20)) // too long
		time.Sleep(time.Minute)
		r := s.Report()
		require.NotNil(t, r)
		require.Equal(t, 20, r.Prompts)
		require.Len(t, r.Finding, 1)
		require.Equal(t, lint.KindTime, r.Finding[0].Kind)
		stop()
		require.NoError(t, <-done)
		for range 100 { // without Run, the queue fills up
			s.Offer([]byte(`{"text":"a"}`))
		}
		sampled, dropped := s.Counts()
		require.Equal(t, uint64(121), sampled+dropped)
		require.Greater(t, dropped, uint64(0))
	})
}

func TestSamplerForgets(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := lint.NewSampler(1)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		for range 2000 {
			s.Offer([]byte(`{"text":"` + strings.Repeat("a ", 100) + `"}`))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		require.Equal(t, 512, s.Report().Prompts)
		stop()
		require.NoError(t, <-done)
	})
}

func TestReadKeepsASample(t *testing.T) {
	lines := strings.Repeat(`{"text":"a"}`+"\n\n"+`{"no":"prompt"}`+"\n", 100)
	read, err := lint.Read(strings.NewReader(lines), 10)
	require.NoError(t, err)
	require.Len(t, read.Prompts, 10)
	require.Equal(t, 100, read.Lines)
	require.Equal(t, 100, read.Skipped)
	_, err = lint.Read(strings.NewReader(`{"no":"prompt"}`), 10)
	require.ErrorIs(t, err, lint.ErrBody)
	read, err = lint.Read(strings.NewReader(""), 10)
	require.NoError(t, err)
	require.Empty(t, read.Prompts)
}
