// Package trace reads recorded requests: Mooncake's format, the router's own access log, which is
// that format with more fields, and sessions of agents. It also has the distributions and numbers
// of tables that come of them.
//
// # Sessions
//
// [ReadSessions] reads a file of agent sessions: one JSON object a line, one session each, with
// the shape of its prompts and its times and without text.
//
//	{"session": "trace_0624", "model": "claude-opus-4-6", "tools": 12530, "system": 4374, "turns": [
//	  {"t": 0, "think": 0, "api": 4.3, "input": 22710, "output": 184, "of": -1, "keep": 0},
//	  {"t": 17, "think": 12, "api": 13.85, "input": 23007, "output": 1251, "of": 0, "keep": 354}]}
//
// Tools and system are the tokens of tool definitions and system prompt at the beginning of each
// prompt. Turns are in the order of their time t, in seconds since the session began: think is
// the pause since the agent's last answer, api the time that the recorded service took, input
// and output are tokens. The first keep blocks of the prompt are those of turn of (-1: none) and
// the others are new; agent is the number of a sub-agent, absent for the main one. A block has
// 64 tokens, or "block_size" of the session. [Session.Steps] makes of it which answer a turn
// waits for, so that a session can be played at the pace of other workers than the recorded.
//
// # Concurrency
//
// [Read] and [ReadSessions] may be called from any goroutine.
//
// # Ownership
//
// The results are the caller's.
//
// # Errors
//
// [ErrTrace] is a malformed line, with its number.
package trace
