package policies

import (
	"errors"
	"slices"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Row is the sessions that one user plays, laid out to be played elsewhere: the same sessions in
// the same order, from the same moments on, as in [SimulateUsers] with the same seed.
type Row struct {
	Begin    time.Duration // of the user's first session
	Sessions [][]RowTurn
}

// RowTurn is one turn of a session.
type RowTurn struct {
	After  int           // the turn of the session whose answer it follows; -1: the session's begin
	Wait   time.Duration // after that
	Prompt []Segment
	Output int
	ID     uint64 // of the session
}

// Rows lays out the sessions of all users: enough for workers that answer at once.
func Rows(sessions []trace.Session, u Users, seed uint64) ([]Row, error) {
	u = u.withDefaults()
	if u.Open {
		return nil, errors.New("policies: cannot lay out an open loop of users")
	}
	if err := u.check(); err != nil {
		return nil, err
	}
	requests, c := newCourse(newScripts(sessions, u.Play), u, Service{}.withDefaults(), 1e6, seed)
	rows := make([]Row, u.N)
	for user := range rows {
		rows[user].Begin = c.begins[user].duration()
		for id := c.of[user]; id < c.of[user+1]; id++ {
			rows[user].Sessions = append(rows[user].Sessions, c.row(requests, id))
		}
	}
	return rows, nil
}

// row lays out one session. Jobs that follow others come behind them.
func (c *course) row(requests []Request, id int32) (turns []RowTurn) {
	at := map[int32]int{}
	var add func(job int32, after int32)
	add = func(job, after int32) {
		for ; job >= 0; job = c.next[job] {
			at[job] = int(after)
			add(c.first[job], job)
		}
	}
	add(c.played[id].root, -1)
	jobs := make([]int32, 0, len(at))
	for job := range at {
		jobs = append(jobs, job)
	}
	slices.Sort(jobs)
	for _, job := range jobs {
		r := &requests[job]
		after, _ := slices.BinarySearch(jobs, int32(at[job]))
		if at[job] < 0 {
			after = -1
		}
		turns = append(turns, RowTurn{After: after, Wait: c.wait[job].duration(), Prompt: r.Prompt, Output: r.Output, ID: r.Session})
	}
	return turns
}
