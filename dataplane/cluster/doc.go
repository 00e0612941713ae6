// Package cluster is what the processes of a Warmpath cluster know of each other: nodes with their workers and GPUs, routers,
// and operators' marks, shared over NATS. The NATS server is the operator's own, or one inside this process that others join.
//
// # How it works
//
// A record (what a node or a router says of itself) is JSON in a JetStream key-value bucket, written when something in it
// changes; every process watches the bucket. That a process lives is told apart from what it says: by beats, messages of some
// 100 bytes on core NATS twice a second. A record whose beats stop is taken out of every View after Lease. The two are apart
// because writing records as often as leases need it would send every process some KB of each other one each second, and store
// it; and because the server's own expiry (a TTL for each key) counts while NATS is down, so that a short outage would empty
// every View at once. Numbers that change all the time, like GPU memory, travel in the beats.
//
// A lease is counted by a clock that only runs while this process hears NATS: every PING that comes back as PONG adds the time
// since the one before. NATS delivers a connection's messages in order, so all beats that NATS had are heard before the PONG.
// Hence no lease ends because of an outage, a stopped server or a stopped process of our own, and no machine's clock is
// compared with another's.
//
// The client library resumes a watch at the revision after the last one, on whatever stream has the bucket's name. Streams are
// therefore compared with their watches every 5 s, and at any sign of a loss; see watched.
//
// # Concurrency
//
// Everything may be called from any goroutine. A Cluster has three: run owns all that was heard and publishes views, pulse
// sends beats and PINGs, write keeps the bucket, the watches and our own records. Each Watch adds one. All end with Close.
// The only lock guards our own records and is never held across I/O. View is one atomic load.
//
// # Ownership
//
// A View and everything below it is never changed after it was published: do not change it. What is announced is copied.
//
// # Errors
//
// An unreachable NATS, or one that refuses us, is a state (View.Up, Status) and not an error of Open. ErrConfig: settings that
// cannot be meant. ErrDown: something needs NATS now. ErrRecord: a record that cannot be announced. ErrNoReply: nobody answers a subject.
package cluster
