package disagg

import (
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// Headers that replace the fields of a body, for servers with
// SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES=1.
const (
	HeaderRID         = "X-Override-Rid"
	HeaderHost        = "X-Override-Bootstrap-Host"
	HeaderPort        = "X-Override-Bootstrap-Port"
	HeaderRoom        = "X-Override-Bootstrap-Room"
	HeaderRank        = "X-Override-Routed-Dp-Rank"
	HeaderPrefillRank = "X-Override-Disagg-Prefill-Dp-Rank"
)

// AppendFields appends the members that give a request its bootstrap rooms: `"bootstrap_host":…,
// "bootstrap_port":…,"bootstrap_room":…`. A batch, even of one prompt, has lists with a room for
// each prompt; any other request has the first room.
func AppendFields(dst []byte, host string, port int, rooms []uint64, batch bool) []byte {
	if !batch {
		rooms = rooms[:1]
	}
	var room [256]byte // a host name has at most 253
	literal := string(AppendHost(room[:0], host))
	dst = appendEach(openai.AppendName(dst, "bootstrap_host"), rooms, batch, func(dst []byte, _ uint64) []byte { return openai.AppendString(dst, literal) })
	dst = appendEach(openai.AppendName(dst, "bootstrap_port"), rooms, batch, func(dst []byte, _ uint64) []byte { return strconv.AppendInt(dst, int64(port), 10) })
	return appendEach(openai.AppendName(dst, "bootstrap_room"), rooms, batch, func(dst []byte, room uint64) []byte { return strconv.AppendUint(dst, room, 10) })
}

func appendEach(dst []byte, rooms []uint64, batch bool, value func([]byte, uint64) []byte) []byte {
	if !batch {
		return value(dst, rooms[0])
	}
	dst = append(dst, '[')
	for i, room := range rooms {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = value(dst, room)
	}
	return append(dst, ']')
}

// AppendRank appends the member that chooses the data-parallel rank of the receiving server.
func AppendRank(dst []byte, rank int) []byte {
	return strconv.AppendInt(openai.AppendName(dst, "routed_dp_rank"), int64(rank), 10)
}

// AppendPrefillRank appends the member that names the data-parallel rank which computes the prompt.
// With it and AppendRank a prefill server does not insist on rank = room % ranks; a decode server
// need not ask for the rank.
func AppendPrefillRank(dst []byte, rank int) []byte {
	return strconv.AppendInt(openai.AppendName(dst, "disagg_prefill_dp_rank"), int64(rank), 10)
}

// AppendHost appends a host as SGLang expects it: SGLang appends a colon and the port, so an IPv6
// address needs brackets.
func AppendHost(dst []byte, host string) []byte {
	if !strings.Contains(host, ":") {
		return append(dst, host...)
	}
	return append(append(append(dst, '['), host...), ']')
}
