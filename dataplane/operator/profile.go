package operator

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// ProfilePath has the profiles of the process where `go tool pprof` looks for them. The handlers of
// net/http/pprof are not used: they also give the command line, which may have keys.
const ProfilePath = "/debug/pprof/"

// cpuProfile is the profile that takes time.
const cpuProfile = "profile"

const (
	// usualProfile is the time of a CPU profile that names none, as in net/http/pprof.
	usualProfile = 30 * time.Second
	// maxProfile bounds it: a profile costs some percent of the CPU.
	maxProfile = time.Minute
	// profileTick is how soon a profile ends after nobody waits for it.
	profileTick = 50 * time.Millisecond
)

// Error is the answer to a profile that cannot be had.
type Error struct {
	Status               int
	Param, Code, Message string
}

// ServeProfile answers a request below ProfilePath. A profile of the CPU ends early once gone
// reports that nobody waits for it.
func ServeProfile(ctx *fasthttp.RequestCtx, gone func() bool) *Error {
	name := strings.TrimPrefix(string(ctx.Path()), ProfilePath)
	args := ctx.QueryArgs()
	ctx.SetContentType("application/octet-stream")
	switch found := pprof.Lookup(name); {
	case name == "":
		ctx.SetContentType("text/plain; charset=utf-8")
		ctx.SetBodyString("go tool pprof http://…" + ProfilePath + "NAME; profiles: " + strings.Join(profileNames(), ", ") + "\n")
	case name == cpuProfile:
		return serveCPU(ctx, gone)
	case found == nil:
		return &Error{
			Status: fasthttp.StatusNotFound, Code: "not_found",
			Message: "There is no profile " + strconv.Quote(name) + "; there are " + strings.Join(profileNames(), ", ") + ".",
		}
	case args.Has("seconds"):
		return badSeconds("Only " + cpuProfile + " takes seconds: the others are what is there now.")
	default:
		debug := args.GetUintOrZero("debug")
		if debug > 0 {
			ctx.SetContentType("text/plain; charset=utf-8")
		}
		_ = found.WriteTo(ctx, debug) // into the answer, which cannot fail
	}
	return nil
}

func badSeconds(message string) *Error {
	return &Error{Status: fasthttp.StatusBadRequest, Param: "seconds", Message: message}
}

// profileNames returns the names of all profiles, sorted.
func profileNames() []string {
	names := []string{cpuProfile}
	for _, p := range pprof.Profiles() {
		names = append(names, p.Name())
	}
	slices.Sort(names)
	return names
}

// serveCPU profiles the CPU. The process has one such profile at a time.
func serveCPU(ctx *fasthttp.RequestCtx, gone func() bool) *Error {
	took, ok := profileTime(ctx.QueryArgs())
	if !ok {
		return badSeconds(fmt.Sprintf("A profile takes 1 to %d seconds.", int(maxProfile.Seconds())))
	}
	var out bytes.Buffer
	if err := pprof.StartCPUProfile(&out); err != nil {
		return &Error{Status: fasthttp.StatusConflict, Code: "profile_running", Message: "Another CPU profile is being made: wait for its end."}
	}
	wait(gone, took)
	pprof.StopCPUProfile()
	ctx.SetBody(out.Bytes())
	return nil
}

// wait waits for d, or until nobody does.
func wait(gone func() bool, d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(profileTick)
	defer tick.Stop()
	for !gone() {
		select {
		case <-end.C:
			return
		case <-tick.C:
		}
	}
}

// profileTime returns how long a profile is asked for; false: not within the bounds.
func profileTime(args *fasthttp.Args) (took time.Duration, ok bool) {
	if !args.Has("seconds") {
		return usualProfile, true
	}
	n, err := args.GetUint("seconds")
	return time.Duration(n) * time.Second, err == nil && n > 0 && n <= int(maxProfile.Seconds())
}
