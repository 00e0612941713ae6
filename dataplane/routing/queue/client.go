package queue

const (
	// quantum is what a client may compute, in tokens, before the others have their turn: a second of one node's prefill.
	// It is how far depth may put one client before another; a smaller one parts branches that several clients share.
	quantum = 16_384
	// requestTokens is what a request costs its client besides the prompt that is computed for it: its place in the
	// batch, for an answer of unknown length.
	requestTokens = 256
	// maxClients bounds the clients whose debts are remembered while they have nothing waiting.
	maxClients = 16_384
)

// client is one of those that share the cluster.
type client struct {
	id      uint64
	credit  int // tokens that it may compute in this turn; negative: a debt of the last request
	waiting int
}

// clients are those that wait, and those that have not got their credit back since.
type clients map[uint64]*client

// enter counts one more waiting request of a client.
func (cs clients) enter(id uint64) *client {
	c := cs[id]
	if c == nil {
		c = &client{id: id, credit: quantum}
		cs[id] = c
	}
	c.waiting++
	return c
}

// leave counts one less.
func (cs clients) leave(c *client) {
	if c.waiting--; c.waiting == 0 && (c.credit >= quantum || len(cs) > maxClients) {
		delete(cs, c.id)
	}
}

// waiting returns how many requests of a client wait.
func (cs clients) waiting(id uint64) int {
	if c := cs[id]; c != nil {
		return c.waiting
	}
	return 0
}

// refill gives every client a number of quanta; nobody saves up more than one.
func (cs clients) refill(rounds int) {
	for id, c := range cs {
		if c.credit = min(c.credit+rounds*quantum, quantum); c.credit == quantum && c.waiting == 0 {
			delete(cs, id)
		}
	}
}

// rounds returns how many refills it takes until c has credit.
func (c *client) rounds() int {
	if c.credit > 0 {
		return 0
	}
	return -c.credit/quantum + 1
}
