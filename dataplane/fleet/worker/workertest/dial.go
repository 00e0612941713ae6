package workertest

import (
	"bufio"
	"context"
	"fmt"
	"net"

	"github.com/valyala/fasthttp"
)

// description answers every GET.
const description = `{"dp_size":1,"page_size":16,"max_total_num_tokens":1000000,"max_running_requests":64,"data":[{"id":"m"}]}`

// Dial connects to a worker of model "m" with pages of 16 tokens, whatever the address. The worker
// describes itself and serves nothing else. Its goroutine ends with the connection.
func Dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer func() { _ = there.Close() }()
		in := bufio.NewReader(there)
		for req := new(fasthttp.RequestHeader); req.Read(in) == nil; {
			if _, err := fmt.Fprintf(there, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(description), description); err != nil {
				return
			}
		}
	}()
	return here, nil
}
