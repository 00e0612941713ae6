package zmq_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

func TestPublisherLifetime(t *testing.T) {
	p, err := zmq.NewPublisher(zmq.PublisherConfig{Endpoint: "tcp://127.0.0.1:0", ReplayEndpoint: anyPort})
	require.NoError(t, err)
	require.Regexp(t, `^tcp://127\.0\.0\.1:[1-9]\d*$`, p.Endpoint())
	require.Regexp(t, `^tcp://127\.0\.0\.1:[1-9]\d*$`, p.ReplayEndpoint())

	_, err = zmq.NewPublisher(zmq.PublisherConfig{Endpoint: p.Endpoint()})
	require.Error(t, err, "taken")
	_, err = zmq.NewPublisher(zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: p.Endpoint()})
	require.Error(t, err, "taken")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, p.WaitSubscriptions(ctx, 1), context.Canceled)
	require.NoError(t, p.Run(ctx))
	require.ErrorIs(t, p.Run(ctx), zmq.ErrRunning)
	require.NoError(t, p.Close())
	require.EqualValues(t, 0, p.Publish(nil), "a publisher that is closed still counts")

	never, err := zmq.NewPublisher(zmq.PublisherConfig{Endpoint: anyPort})
	require.NoError(t, err)
	require.NoError(t, never.Close())
	require.NoError(t, never.Close())
}
