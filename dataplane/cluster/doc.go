// Package cluster shares the records of a Warmpath cluster over NATS: nodes with their workers
// and GPUs, routers, and operators' drain and cordon marks. The NATS server is the operator's
// own, or one inside this process that others join.
//
// # How it works
//
// A record describes a node or a router. It is JSON in a JetStream key-value bucket, written
// when it changes; every process watches the bucket. Beats, messages of some 100 bytes on core
// NATS twice a second, show that the process behind a record lives; after Lease without one the
// record leaves every View. Leases by records would send every process some KB of each other
// one each second, and store it. The server's own expiry (a TTL for each key) counts while NATS
// is down, so that a short outage would empty every View at once. Numbers that change all the
// time, like GPU memory, travel in the beats.
//
// The clock of the leases runs only while this process hears NATS: every PING that comes back
// as PONG adds the time since the one before. NATS delivers a connection's messages in order,
// so all beats that NATS had arrive before the PONG. Hence no lease ends because of an outage,
// a stopped server or a pause of this process, and no machine's clock is compared with
// another's.
//
// The client library resumes a watch at the revision after the last one, on any stream with the
// bucket's name. Streams are therefore compared with their watches every 5 s, and at any sign of a
// loss; see bucketWatch. Drain and cordon marks have a bucket of their own without age; they hold
// for every worker with their URL. A lost bucket is filled again by its members. Traffic grows with
// the square of the members: 45 of them cost NATS 0.06 of a core, 141 by calculation 0.3 to 0.6.
//
// # Roles
//
// A holder of the cluster's secret may do everything. RoleToken makes of it tokens for one node,
// router or operator. Their holders reach core NATS on the subjects of their role alone, and the
// buckets through a member that has the secret; see store. The subject of a beat has its owner, as
// that of PublishOwn has, and replies have subjects of their own, so that NATS's permissions
// decide.
//
// # Concurrency
//
// Everything may be called from any goroutine. A Cluster has four: reader owns all received state
// and publishes views, pulse sends beats and PINGs, writer keeps the bucket, the watches and the
// records of this process, store serves the holders of tokens, where this process has the secret.
// Each Watch adds one, and so does each watched bucket of a holder. All end with Close. View is one
// atomic load. Four locks, each taken alone and never across I/O: ownRecords.mu guards the records
// of this process, views.mu the signal for watchers, storeQueue.mu the counts of requests that wait
// for store, authenticator.mu the connections to the server inside this process.
//
// # Ownership
//
// A View and everything below it never changes once published: do not change it. Announced
// records are copied.
//
// # Errors
//
// A NATS that is out of reach or refuses this process is a state (View.Up, Status) and not an
// error of Open. ErrConfig means unusable settings, ErrDown a call that needs NATS now,
// ErrRecord a record that cannot be announced, ErrNoReply a subject without a subscriber, ErrDenied
// an act that the token's role does not allow.
package cluster
