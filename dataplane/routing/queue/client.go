package queue

const (
	// quantum is the tokens that a client may compute before the others have their turn: a
	// second of one node's prefill. Depth may favour a client by as much; a smaller quantum
	// separates requests of several clients that share a branch.
	quantum = 16_384
	// requestTokens is the cost of a request beside its prompt: a place in the batch for an
	// answer of unknown length.
	requestTokens = 256
	// maxClients bounds the clients with a debt and without a waiting request.
	maxClients = 16_384
)

// client is a user of the cluster, with its turn.
type client struct {
	id      uint64
	credit  int // tokens left in this turn; negative: a debt of the last request
	waiting int
}

// clients are the clients with waiting requests or without their full credit.
type clients map[uint64]*client

// enter adds a waiting request.
func (cs clients) enter(id uint64) *client {
	c := cs[id]
	if c == nil {
		c = &client{id: id, credit: quantum}
		cs[id] = c
	}
	c.waiting++
	return c
}

// leave removes a waiting request.
func (cs clients) leave(c *client) {
	if c.waiting--; c.waiting == 0 && (c.credit >= quantum || len(cs) > maxClients) {
		delete(cs, c.id)
	}
}

// waiting returns the number of a client's waiting requests.
func (cs clients) waiting(id uint64) int {
	if c := cs[id]; c != nil {
		return c.waiting
	}
	return 0
}

// refill gives every client a number of quanta, up to a credit of one.
func (cs clients) refill(rounds int) {
	for id, c := range cs {
		if c.credit = min(c.credit+rounds*quantum, quantum); c.credit == quantum && c.waiting == 0 {
			delete(cs, id)
		}
	}
}

// rounds returns the number of refills until c has credit.
func (c *client) rounds() int {
	if c.credit > 0 {
		return 0
	}
	return -c.credit/quantum + 1
}
