package leaktest

import (
	"time"

	"go.uber.org/goleak"
)

// patience is how long the last goroutines may take to end.
const patience = 2 * time.Minute

// Main runs the tests of a package and then ends the process, with an error if goroutines are left.
func Main(m goleak.TestingM, ignored ...goleak.Option) {
	goleak.VerifyTestMain(patient{m, ignored}, ignored...)
}

// patient is tests that end with their goroutines.
type patient struct {
	tests   goleak.TestingM
	ignored []goleak.Option
}

// Run implements goleak.TestingM. It says nothing of goroutines that are left: the caller looks
// once more.
func (p patient) Run() int {
	code := p.tests.Run()
	for end := time.Now().Add(patience); code == 0 && goleak.Find(p.ignored...) != nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return code
}

// FastHTTP ignores the goroutines that fasthttp leaves: two sleep for up to 10 s after the end of
// their owner and then end, the third is a clock of the whole process.
func FastHTTP() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
	}
}
