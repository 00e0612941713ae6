package ingress_test

// clientHeads are requests as clients send them, recorded on 2026-11-22.
var clientHeads = map[string]string{
	"curl 7.88": "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:34313\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n" +
		"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
	"curl 7.88, long": "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:34313\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n" +
		"Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
	"curl 7.88, chunked": "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:34313\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n" +
		"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	"requests 2.34": "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:34313\r\nUser-Agent: python-requests/2.34.2\r\n" +
		"Accept-Encoding: gzip, deflate\r\nAccept: */*\r\nConnection: keep-alive\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}",
	"aiohttp 3.14": "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:37963\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n" +
		"User-Agent: Python/3.11 aiohttp/3.14.5\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}",
	"openai 3.54, on httpx2": "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:37963\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n" +
		"authorization: Bearer sk-x\r\naccept: application/json\r\ncontent-type: application/json\r\nuser-agent: AsyncOpenAI/Python 3.54.0\r\n" +
		"x-stainless-lang: python\r\nx-stainless-package-version: 3.54.0\r\nx-stainless-os: Linux\r\nx-stainless-arch: x64\r\n" +
		"x-stainless-runtime: CPython\r\nx-stainless-runtime-version: 3.11.7\r\nx-stainless-async: async:asyncio\r\n" +
		"x-stainless-retry-count: 0\r\nx-stainless-read-timeout: 600\r\nContent-Length: 41\r\n\r\n" + `{"model":"m","stream":true,"messages":[]}`,
	"fetch of node 20": "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:34313\r\nconnection: keep-alive\r\ncontent-type: application/json\r\n" +
		"accept: */*\r\naccept-language: *\r\nsec-fetch-mode: cors\r\nuser-agent: node\r\naccept-encoding: gzip, deflate\r\ncontent-length: 2\r\n\r\n{}",
}
