"""Sends requests with the openai client's Responses API, one for each line of JSON on standard input, in the order in which they come.

A line: {"stream": bool, "body": {…}}, where body is that of /v1/responses; or {"get": id} or {"cancel": id}.
An answer, a line of JSON on standard output: {"id", "response_status", "output", "prompt_tokens", "cached_tokens", "worker", "prefill",
"overlap", "source", "events", "ttft", "error", "status", "kind"}

Usage: python responses_client.py BASE_URL      (for instance http://127.0.0.1:8000/v1)
"""
import json
import sys
import time

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0, timeout=60)
# As Codex does.
CODEX = {"originator": "codex_cli_rs", "session_id": "0199", "conversation_id": "0199", "OpenAI-Beta": "responses=experimental"}


def whole(raw):
    return raw.headers, raw.parse(), [], None


def streamed(raw):
    names, first, last = [], None, None
    for number, event in enumerate(raw.parse()):
        if event.sequence_number != number:
            raise ValueError(f"event {event.type} has the number {event.sequence_number} instead of {number}")
        if event.type.endswith(".delta"):
            first = first or time.perf_counter()
        if event.type not in names:
            names.append(event.type)
        last = getattr(event, "response", None) or last
    return raw.headers, last, names, first


def run(request):
    began = time.perf_counter()
    if "get" in request:
        headers, response, names, first = whole(client.responses.with_raw_response.retrieve(request["get"]))
    elif "cancel" in request:
        headers, response, names, first = whole(client.responses.with_raw_response.cancel(request["cancel"]))
    else:
        raw = client.responses.with_raw_response.create(
            stream=request["stream"], extra_headers=CODEX, model="tiny", extra_body=request["body"]
        )
        headers, response, names, first = (streamed if request["stream"] else whole)(raw)
    usage = response.usage
    return {
        "id": response.id,
        "response_status": response.status,
        "output": [item.model_dump(exclude_none=True) for item in response.output],
        "prompt_tokens": usage.input_tokens if usage else 0,
        "cached_tokens": usage.input_tokens_details.cached_tokens if usage else 0,
        "worker": headers.get("x-warmpath-worker", ""),
        "prefill": headers.get("x-warmpath-prefill", ""),
        "overlap": headers.get("x-warmpath-overlap", ""),
        "source": headers.get("x-warmpath-overlap-source", ""),
        "events": names,
        "ttft": (first or time.perf_counter()) - began,
    }


for line in sys.stdin:
    try:
        result = run(json.loads(line))
    except openai.APIStatusError as error:
        result = {"error": f"{type(error).__name__}: {error}", "status": error.status_code}
        if isinstance(error.body, dict):
            result["kind"] = error.body.get("type") or ""
    except Exception as error:  # The Go side decides what an error means for the test.
        result = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result), flush=True)
