"""Sends requests with the openai client, one for each line of JSON on standard input, in the order in which they come.

A line: {"api": "chat" | "completions", "stream": bool, "max_tokens": n, "messages": [...] | "prompt": "..."}
An answer, a line of JSON on standard output: {"text", "prompt_tokens", "cached_tokens", "worker", "overlap", "ttft", "error"}

Usage: python openai_client.py BASE_URL      (for instance http://127.0.0.1:8000/v1)
"""
import json
import sys
import time

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0, timeout=60)


def create(request):
    """Starts the request; the raw answer has the router's headers, which the parsed one lacks."""
    common = {
        "model": "tiny",
        "max_tokens": request["max_tokens"],
        "temperature": 0,
        "extra_body": {"ignore_eos": True},
    }
    if request["stream"]:
        common["stream"] = True
        common["stream_options"] = {"include_usage": True}
    if request["api"] == "chat":
        return client.chat.completions.with_raw_response.create(messages=request["messages"], **common)
    return client.completions.with_raw_response.create(prompt=request["prompt"], **common)


def text_of(choice, stream):
    if hasattr(choice, "text"):
        return choice.text or ""
    message = choice.delta if stream else choice.message
    return message.content or ""


def run(request):
    began = time.perf_counter()
    raw = create(request)
    answer = raw.parse()
    first, text, usage = None, "", None
    for part in answer if request["stream"] else [answer]:
        usage = part.usage or usage
        for choice in part.choices:
            piece = text_of(choice, request["stream"])
            if piece and first is None:
                first = time.perf_counter()
            text += piece
    details = usage.prompt_tokens_details
    return {
        "text": text,
        "prompt_tokens": usage.prompt_tokens,
        # The engine leaves the details out where nothing was cached.
        "cached_tokens": (details.cached_tokens or 0) if details else 0,
        "worker": raw.headers.get("x-warmpath-worker", ""),
        "overlap": raw.headers.get("x-warmpath-overlap", ""),
        "ttft": (first or time.perf_counter()) - began,
    }


for line in sys.stdin:
    try:
        result = run(json.loads(line))
    except Exception as error:  # The Go side decides what an error means for the test.
        result = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result), flush=True)
