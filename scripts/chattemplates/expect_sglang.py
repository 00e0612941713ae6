#!/usr/bin/env python3
"""Renders random chat requests with SGLang's own code, for the Go test behind the build tag
`templates`.

    ENGINE/bin/python3 scripts/chattemplates/expect_sglang.py --out requests.jsonl --count 50 TEMPLATE...
    CHAT_REQUESTS=$PWD/requests.jsonl go test -tags templates -run TestSGLangRequests ./dataplane/prompt/chattemplate

ENGINE is a virtual environment with SGLang (or PYTHONPATH names an unpacked wheel of another
release); templates are as for expect.py. No server is started and no model loaded: a request
passes through SGLang's pydantic models, its checks and its template code, with a tokenizer that
records the text to encode.
"""

import argparse
import json
import os
import random
import sys
import types

sys.path.insert(0, os.path.dirname(__file__))
import conversations  # noqa: E402
import expect  # noqa: E402
import orjson  # noqa: E402
import transformers  # noqa: E402

# An old release of SGLang registers models that a newer transformers already has.
register = transformers.AutoConfig.register
transformers.AutoConfig.register = staticmethod(lambda name, config, exist_ok=False: register(name, config, exist_ok=True))
import sglang  # noqa: E402
from sglang.srt.entrypoints.openai import protocol, serving_chat  # noqa: E402

try:
    from sglang.srt.parser import jinja_template_utils
except ImportError:
    from sglang.srt.utils import jinja_template_utils


class Tokenizer:
    """Records the text to encode."""

    bos_token_id = None

    def __init__(self, template, tokens):
        self.chat_template, self.tokens, self.text, self.begun = template, tokens, None, None

    def apply_chat_template(self, conversation, tools=None, tokenize=True, add_generation_prompt=False, return_dict=True,
                            continue_final_message=False, documents=None, chat_template=None, **kwargs):
        if not conversation:
            raise ValueError("empty conversation")
        out, _ = expect.hf.render_jinja_template(
            [conversation], tools=tools, documents=documents, chat_template=chat_template or self.chat_template,
            add_generation_prompt=add_generation_prompt, continue_final_message=continue_final_message, **{**self.tokens, **kwargs})
        if tokenize:
            return self.encode(out[0])
        return out[0]

    def encode(self, text, **_):
        if self.text is not None:
            self.begun = len(self.text.encode())
        self.text = (self.text or "") + text
        return [1] if text else []

    def __call__(self, text, **_):
        return {"input_ids": self.encode(text)}


class Anything(types.SimpleNamespace):
    """Has every attribute; those that rendering does not need are None."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None


# The engine's settings: all defaults.
for accessor in ("get_model", "get_serving", "get_parallel"):
    if hasattr(serving_chat, accessor):
        setattr(serving_chat, accessor, Anything)


def serving(template, tokens, defaults):
    """An OpenAIServingChat with the attributes that rendering needs."""
    s = object.__new__(serving_chat.OpenAIServingChat)
    s.tokenizer_manager = Anything(tokenizer=Tokenizer(template, tokens), served_model_name="m", server_args=Anything(), model_config=Anything())
    s.template_manager = Anything(
        chat_template_name=None, python_chat_template=None, reasoning_config=None,
        jinja_template_content_format=jinja_template_utils.detect_jinja_template_content_format(template),
        jinja_template_may_reorder_tool_results=getattr(
            jinja_template_utils, "jinja_template_may_reorder_tool_results", lambda _: False)(template))
    for name in ("is_gpt_oss", "is_gemma4", "is_minimax_m3", "use_dpsk_v32_encoding", "_prompt_text_round_trip_is_lossy"):
        setattr(s, name, False)
    for name in ("tool_call_parser", "reasoning_parser", "chat_encoding_spec", "_encoding_adapter", "_reasoning_detector"):
        setattr(s, name, None)
    s._tokenizer_auto_adds_specials = True
    s.default_chat_template_kwargs = defaults or {}
    s._chat_template_cache = {}
    return s


def render(template, tokens, defaults, body):
    """The text that the engine would encode, and the offset of a continued message in it, which is
    encoded apart; raises where the engine would answer with an error."""
    request = protocol.ChatCompletionRequest(**orjson.loads(body))
    s = serving(template, tokens, defaults)
    error = s._validate_request(request)
    if error:
        raise ValueError(error)
    # _convert_to_internal_request, up to _process_messages.
    effort = request.chat_template_kwargs.pop("reasoning_effort", None) if request.chat_template_kwargs else None
    if effort is not None:
        request.reasoning_effort = effort
    s._process_messages(request, False)
    return s.tokenizer_manager.tokenizer.text, s.tokenizer_manager.tokenizer.begun


def request(r, names, tokens, continued=False):
    messages = conversations.conversation(r)
    if continued and r.random() < 0.9:
        messages.append({"role": "assistant", "content": r.choice([conversations.text(r), "", " x\n", [{"type": "text", "text": "a"}]])})
    for m in messages:
        for c in m.get("tool_calls") or []:
            f = c["function"]
            if isinstance(f["arguments"], dict) and r.random() < 0.8:
                f["arguments"] = json.dumps(f["arguments"], ensure_ascii=r.random() < 0.5)
            if r.random() < 0.2:
                c["index"] = r.choice([0, None])
        if r.random() < 0.1:
            m["name"] = r.choice(["bob", None])
        if r.random() < 0.05:
            m["extra"] = conversations.value(r)
        if r.random() < 0.03:
            m["phase"] = r.choice(["commentary", "final_answer", None])
        if r.random() < 0.03:
            m["prefix"] = r.choice([True, False, None])
        if r.random() < 0.05:
            m["role"] = m["role"].upper()
    body = {"model": "m", "messages": messages}
    if r.random() < 0.5:
        tools = [conversations.tool(r) for _ in range(r.randint(0, 3))]
        for t in tools:
            if r.random() < 0.1:
                t["function"]["parameters"] = r.choice([None, {"type": "object", "properties": {"x": {"type": "varchar"}}}])
            if r.random() < 0.05:
                t["extra"] = 1
            if r.random() < 0.05:
                t["function"]["strict"] = None
        body["tools"] = tools
        if r.random() < 0.3:
            body["tool_choice"] = r.choice(["auto", "none", "required", {"type": "function", "function": {"name": r.choice(conversations.NAMES)}}])
    if r.random() < 0.3:
        body["reasoning_effort"] = r.choice(["none", "low", "medium", "high", "minimal", None])
    if r.random() < 0.5:
        body["chat_template_kwargs"] = {k: v for k, v in expect.kwargs_of(r, names, {}).items() if k not in expect.TOKENS}
    if continued:
        body["continue_final_message"] = True
    elif r.random() < 0.05:
        body["continue_final_message"] = r.choice([True, False])
    return json.dumps(body, ensure_ascii=r.random() < 0.5)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", required=True)
    ap.add_argument("--count", type=int, default=50, help="requests a template")
    ap.add_argument("--continued", action="store_true", help="requests with continue_final_message")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("templates", nargs="+")
    opts = ap.parse_args()
    total = refused = 0
    version = getattr(sglang, "__version__", "0.5.23")
    with open(opts.out, "w", encoding="utf-8") as out:
        for path in opts.templates:
            for name, template, tokens in expect.load(path):
                try:
                    env = expect.hf._compile_jinja_template(template).environment
                    names = expect.jinja2.meta.find_undeclared_variables(env.parse(template))
                except Exception:  # noqa: BLE001
                    continue
                tokens = dict(tokens)
                for token in expect.TOKENS:
                    if token in names:
                        tokens.setdefault(token, "<%s>" % token)
                out.write(json.dumps(dict(template=name, source=template, tokens=tokens, version=version)) + "\n")
                for i in range(opts.count):
                    r = random.Random(f"{opts.seed}/{name}/{i}")
                    defaults = r.choice([None, None, None, {"enable_thinking": False}, {"reasoning_effort": "high"}])
                    case = dict(template=name, body=request(r, names, tokens, opts.continued), defaults=defaults)
                    try:
                        case["want"], begun = render(template, tokens, defaults, case["body"])
                        if begun is not None:
                            case["begun"] = begun
                        case["want"].encode()
                    except Exception as e:  # noqa: BLE001
                        case.pop("want", None)
                        case["raised"] = repr(e)[:200]
                        refused += 1
                    total += 1
                    out.write(json.dumps(case) + "\n")
    print(f"SGLang {version}: {total} requests, {refused} of them refused")


if __name__ == "__main__":
    main()
