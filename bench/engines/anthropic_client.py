"""Sends requests with the anthropic client, one for each line of JSON on standard input, in the order in which they come.

A line: {"stream": bool, "count": bool, "body": {…}}, where body is that of /v1/messages and count asks count_tokens instead.
An answer, a line of JSON on standard output: {"content", "prompt_tokens", "cached_tokens", "worker", "prefill", "overlap",
"source", "ttft", "error", "status", "kind"}

Usage: python anthropic_client.py BASE_URL      (for instance http://127.0.0.1:8000)
"""
import json
import sys
import time

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="none", max_retries=0, timeout=60)
# As Claude Code does.
CLAUDE = {"extra_headers": {"anthropic-beta": "claude-code-20250219"}, "extra_query": {"beta": "true"}}
# Fields that the client has in some releases only.
EXTRA = ("temperature",)


def split(body):
    extra = {k: v for k, v in body.items() if k in EXTRA}
    return {**{k: v for k, v in body.items() if k not in EXTRA}, "extra_body": extra, **CLAUDE}


def whole(body):
    raw = client.messages.with_raw_response.create(**split(body))
    message = raw.parse()
    return raw.headers, message.usage, [block.model_dump(exclude_none=True) for block in message.content], None


def streamed(body):
    content, usage, first = [], None, None
    with client.messages.with_streaming_response.create(stream=True, **split(body)) as raw:
        for event in raw.parse():
            if event.type == "message_start":
                usage = event.message.usage
            elif event.type == "content_block_start":
                content.append(event.content_block.model_dump(exclude_none=True))
            elif event.type == "content_block_delta":
                first = first or time.perf_counter()
                for name in ("text", "thinking"):
                    if event.delta.type == name + "_delta":
                        content[-1][name] += getattr(event.delta, name)
        return raw.headers, usage, content, first


def run(request):
    body = request["body"]
    if request.get("count"):
        body = {k: v for k, v in body.items() if k not in ("max_tokens", "temperature", "stream", "metadata")}
        return {"prompt_tokens": client.messages.count_tokens(**body).input_tokens}
    began = time.perf_counter()
    headers, usage, content, first = (streamed if request["stream"] else whole)(body)
    cached = usage.cache_read_input_tokens or 0
    return {
        "content": content,
        "prompt_tokens": usage.input_tokens + cached,
        "cached_tokens": cached,
        "worker": headers.get("x-warmpath-worker", ""),
        "prefill": headers.get("x-warmpath-prefill", ""),
        "overlap": headers.get("x-warmpath-overlap", ""),
        "source": headers.get("x-warmpath-overlap-source", ""),
        "ttft": (first or time.perf_counter()) - began,
    }


for line in sys.stdin:
    try:
        result = run(json.loads(line))
    except anthropic.APIStatusError as error:
        result = {"error": f"{type(error).__name__}: {error}", "status": error.status_code}
        if isinstance(error.body, dict) and isinstance(error.body.get("error"), dict):
            result["kind"] = error.body["error"].get("type", "")
    except Exception as error:  # The Go side decides what an error means for the test.
        result = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result), flush=True)
