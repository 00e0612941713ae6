package admin

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// profilePath has the profiles of the process where `go tool pprof` looks for them. The handlers of
// net/http/pprof are not used: they also give the command line, which may have keys.
const profilePath = "/debug/pprof/"

// cpuProfile is the profile that takes time.
const cpuProfile = "profile"

const (
	// usualProfile is the time of a CPU profile that names none, as in net/http/pprof.
	usualProfile = 30 * time.Second
	// maxProfile bounds it: a profile costs some percent of the CPU.
	maxProfile = time.Minute
	// profileTick is how soon a profile ends after its operator has left, or at shutdown.
	profileTick = 50 * time.Millisecond
)

// profiler serves the profiles.
type profiler struct{ responder }

func (p *profiler) serve(ctx *fasthttp.RequestCtx) {
	name := strings.TrimPrefix(string(ctx.Path()), profilePath)
	args := ctx.QueryArgs()
	ctx.SetContentType("application/octet-stream")
	switch found := pprof.Lookup(name); {
	case name == "":
		ctx.SetContentType("text/plain; charset=utf-8")
		ctx.SetBodyString("go tool pprof http://…" + profilePath + "NAME; profiles: " + strings.Join(profileNames(), ", ") + "\n")
	case name == cpuProfile:
		p.serveCPU(ctx)
	case found == nil:
		p.fail(ctx, &openai.Error{
			Status: fasthttp.StatusNotFound, Type: "invalid_request_error", Code: "not_found",
			Message: "There is no profile " + strconv.Quote(name) + "; there are " + strings.Join(profileNames(), ", ") + ".",
		})
	case args.Has("seconds"):
		p.fail(ctx, openai.BadRequest("seconds", "Only "+cpuProfile+" takes seconds: the others are what is there now."))
	default:
		debug := args.GetUintOrZero("debug")
		if debug > 0 {
			ctx.SetContentType("text/plain; charset=utf-8")
		}
		_ = found.WriteTo(ctx, debug) // into the answer, which cannot fail
	}
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
func (p *profiler) serveCPU(ctx *fasthttp.RequestCtx) {
	took, ok := profileTime(ctx.QueryArgs())
	if !ok {
		p.fail(ctx, openai.BadRequest("seconds", fmt.Sprintf("A profile takes 1 to %d seconds.", int(maxProfile.Seconds()))))
		return
	}
	var out bytes.Buffer
	if err := pprof.StartCPUProfile(&out); err != nil {
		p.fail(ctx, &openai.Error{
			Status: fasthttp.StatusConflict, Type: "invalid_request_error", Code: "profile_running",
			Message: "Another CPU profile is being made: wait for its end.",
		})
		return
	}
	p.wait(ingress.ClientOf(ctx.Conn()), took)
	pprof.StopCPUProfile()
	ctx.SetBody(out.Bytes())
}

// wait waits for d, or until the operator leaves or the router shuts down.
func (p *profiler) wait(operator *ingress.Client, d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(profileTick)
	defer tick.Stop()
	for !operator.Gone() && !p.requests.Draining() {
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
