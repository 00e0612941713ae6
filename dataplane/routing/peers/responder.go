package peers

import (
	"math"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// responder chooses for other routers.
type responder struct {
	cfg   *Config
	loads *loads
	count *counters

	mu      sync.Mutex // one choice at a time; loads.mu is taken under it
	scratch routing.Scratch
	request request
	reply   []byte
}

// onMessage takes a request or a prompt of another router. It counts its choice at once, so
// that the next choice knows of it.
func (r *responder) onMessage(data []byte) {
	if len(data) > 1 && data[1] == kindPrompt {
		r.onPrompt(data)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &r.request
	if err := q.decode(data); err != nil {
		r.count.malformed.Add(1)
		return
	}
	reply := routing.PeerReply{Number: q.number}
	if d, err := r.cfg.Chooser.ChooseFor(&r.scratch, &q.PeerRequest); err == nil {
		reply.Rank, reply.Cost = d.Rank.IDHash(), d.Choice.Cost
		if math.IsNaN(reply.Cost) || math.IsInf(reply.Cost, 0) {
			reply.Cost = 0
		}
		if d.Decode != nil {
			reply.Decode = d.Decode.IDHash()
		}
		r.loads.promise(q, &d)
	}
	r.count.judged.Add(1)
	r.reply = appendReply(r.reply[:0], &reply)
	if err := r.cfg.Bus.Publish(subjectReply+string(q.id), r.reply); err != nil {
		r.count.failed.Add(1)
	}
}

// onPrompt takes a prompt that another router has sent.
func (r *responder) onPrompt(data []byte) {
	var m promptMessage
	if err := m.decode(data); err != nil {
		r.count.malformed.Add(1)
		return
	}
	if r.loads.knows(m.id) { // the end of an unknown router would go unnoticed
		r.cfg.Predictions.Add(time.Now(), promptID(m.id, m.number), m.rank, m.tokens, m.fingerprints, true)
	}
}
