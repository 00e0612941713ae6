"""Writes testdata/vectors.jsonl of dataplane/prompt/responses: bodies of /v1/responses, and the chat that the code of SGLang 0.5.23
makes of them.

Usage: PYTHONPATH=bench/engines/shim ENGINE/bin/python scripts/responses/vectors.py > dataplane/prompt/responses/testdata/vectors.jsonl

The real create_responses runs, up to the template: its call of ChatCompletionRequest is recorded, and the engine behind it is never
reached. A line holds body, inline (the template renders system messages where they stand), history (the stored conversation) and
either chat or error.
"""

import asyncio
import base64
import json
import os
import random
import sys
import types
import zlib

os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")

from pydantic import ValidationError  # noqa: E402
import orjson  # noqa: E402
from sglang.srt.entrypoints.openai import serving_responses as sr  # noqa: E402
from sglang.srt.entrypoints.openai.protocol import ResponsesRequest  # noqa: E402


class Reached(BaseException):
    """The chat has been made and validated."""


recorded = {}
real_chat = sr.ChatCompletionRequest


def record(**kwargs):
    recorded.clear()
    recorded.update(kwargs)
    return real_chat(**kwargs)


sr.ChatCompletionRequest = record


class Serving(sr.OpenAIServingResponses):
    def __init__(self, inline):
        self.tokenizer_manager = types.SimpleNamespace(
            served_model_name="m",
            lora_registry=None,
            tokenizer=None,
            model_config=types.SimpleNamespace(
                is_multimodal=True, hf_config=types.SimpleNamespace(model_type="llama")
            ),
        )
        self.supports_inline_system = inline
        self.tool_call_parser = None
        self.reasoning_parser = None
        self.use_harmony = self._translates_tools = self.is_disaggregated = False
        self.supports_browsing = self.supports_code_interpreter = False
        self.tool_server = None
        self.enable_response_store = True
        self.response_store, self.msg_store, self.background_tasks = {}, {}, {}
        self.response_store_lock = asyncio.Lock()
        self.default_sampling_params = {}

    def _process_messages(self, request, is_multimodal, **kwargs):
        raise Reached


def chat_of(kwargs):
    """The recorded chat, with tools as the template gets them."""
    tools = None
    if kwargs["tools"]:
        tools = []
        for tool in kwargs["tools"]:
            tool = tool.model_dump()
            if tool["defer_loading"] is None:
                del tool["defer_loading"]
            tools.append(tool)
    return {
        "messages": kwargs["messages"],
        "tools": tools,
        "tool_choice": kwargs["tool_choice"],
        "reasoning_effort": kwargs["reasoning_effort"],
        "chat_template_kwargs": kwargs["chat_template_kwargs"],
    }


def stored(serving, turns):
    """Stores a conversation as answers do: the input of each turn, and what the model made of it."""
    messages = []
    for given, output in turns:
        request = ResponsesRequest(**orjson.loads(orjson.dumps({"model": "m", "input": given})))
        messages = messages + serving._response_input_history(request) + [
            item.model_dump(exclude_none=True) for item in sr._RESPONSE_OUTPUT.validate_python(output)
        ]
    serving.msg_store["resp_before"] = messages
    serving.response_store["resp_before"] = types.SimpleNamespace(id="resp_before", output=[])


def run(body, inline, turns):
    serving = Serving(inline)
    if turns:
        stored(serving, turns)
        body = {**body, "previous_response_id": "resp_before"}
    line = {"body": body, "inline": inline}
    if turns:
        line["history"] = [part for turn in turns for part in turn]
    recorded.clear()
    try:
        request = ResponsesRequest(**orjson.loads(orjson.dumps(body)))
        answer = asyncio.run(serving.create_responses(request))
        line["error"] = answer.status_code
    except Reached:
        line["chat"] = chat_of(recorded)
    except ValidationError:
        line["error"] = 400
    return line


def state(text):
    return "sglang-reasoning-v1." + base64.urlsafe_b64encode(zlib.compress(text.encode())).decode()


def message(role, content, **more):
    return {"type": "message", "role": role, "content": content, **more}


def call(name="shell", arguments='{"command": ["ls", "-la"]}', **more):
    return {"type": "function_call", "call_id": "call_1", "name": name, "arguments": arguments, **more}


def result(output, **more):
    return {"type": "function_call_output", "call_id": "call_1", "output": output, **more}


def reasoning(summary=None, content=None, **more):
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": t} for t in summary or []]}
    if content is not None:
        item["content"] = [{"type": "reasoning_text", "text": t} for t in content]
    return {**item, **more}


def text(*texts, kind="input_text"):
    return [{"type": kind, "text": t} for t in texts]


WEATHER = {
    "type": "function", "name": "weather", "description": "The weather of a place.", "strict": True,
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}, "days": {"type": "integer"}}, "required": ["place"]},
}
PATCH = {
    "type": "custom", "name": "apply_patch", "description": "Changes \"files\".\n",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"a\" /\\d+/\n"},
}
CODEX_TOOLS = [
    {"type": "function", "name": "shell", "description": "Runs a command.", "strict": False,
     "parameters": {"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}}, "required": ["command"]}},
    PATCH, {"type": "web_search"}, {"type": "local_shell"},
]
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}

# Bodies without a model's name get "m".
BODIES = [
    {"input": "Hello"},
    {"input": ""},
    {"input": []},
    {"input": None},
    {"input": 5},
    {"input": {}},
    {"instructions": "Be brief.", "input": "Hello"},
    {"instructions": "", "input": "Hello"},
    {"instructions": "a", "input": []},
    {"instructions": ["a"], "input": "Hello"},
    {"input": "Gr\u00fc\u00dfe \u2028 \U0001f600 \u0001 \"quoted\" \\ / \n\t"},
    {"input": [{"role": "user", "content": "a"}]},
    {"input": [message("user", "a"), message("assistant", "b"), message("user", "c")]},
    {"input": [message("user", text("a", "b")), message("assistant", text("c", "d", kind="output_text"))]},
    {"input": [message("assistant", "a"), message("assistant", "b"), message("user", "c")]},
    {"input": [message("assistant", ""), message("assistant", "b"), message("assistant", "")]},
    {"input": [message("assistant", "a"), message("assistant", text("b"))]},
    {"input": [message("assistant", text("a")), message("assistant", "b"), message("assistant", text("c"))]},
    {"input": [message("assistant", "a"), message("assistant", [])]},
    {"input": [message("assistant", []), message("assistant", "a")]},
    {"input": [message("assistant", []), message("assistant", [])]},
    {"input": [message("assistant", "a", phase="commentary"), call(), result("x"), message("assistant", "b", phase="final_answer")]},
    {"input": [reasoning(["think"]), message("assistant", "a", phase="commentary"), call()]},
    {"input": [message("assistant", "a", phase="commentary"), message("assistant", "b", phase="commentary")]},
    {"input": [message("assistant", "a", phase="commentary"), message("assistant", "b", phase="final_answer")]},
    {"input": [message("assistant", "a", phase="other"), message("user", "b")]},
    {"input": [message("assistant", None), message("user", "b")]},
    {"input": [message("user", None)]},
    {"input": [message("user", 5)]},
    {"input": [message("system", "s"), message("user", "a"), message("system", "t")]},
    {"instructions": "i", "input": [message("developer", "d"), message("user", "a"), message("developer", text("e", "f"))]},
    {"instructions": "i", "input": [message("developer", "d\n\"q\"")]},
    {"input": [message("developer", [IMAGE, *text("d", "e")])]},
    {"input": [message("developer", [IMAGE])]},
    {"input": [message("developer", [])]},
    {"input": [message("developer", [{"type": "input_text"}])]},
    {"input": [message("developer", [{"type": "other", "text": "x"}])]},
    {"input": [message("developer", [{"type": "text", "text": "x", "more": 1}])]},
    {"input": [message("developer", None), message("user", "a")]},
    {"input": [message("system", None), message("user", "a")]},
    {"input": [message("system", ""), message("user", "a")]},
    {"input": [message("system", [{"type": "input_text"}, *text("b")]), message("user", "a")]},
    {"input": [message("assistant", "a"), message("system", "s"), message("assistant", "b")]},
    {"input": [message("System", "s"), message("USER", "a"), message("Assistant", "b")]},
    {"input": [message("user", "a", name="n", id="msg_1", status="completed", metadata=None)]},
    {"input": [message("tool", "a", tool_call_id="c")]},
    {"input": [message("function", "a", name="f")]},
    {"input": [message("latest_reminder", "a")]},
    {"input": [message("nobody", "a")]},
    {"input": [{"type": "message", "content": "a"}]},
    {"input": [message("assistant", "a", tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]), call()]},
    {"input": [message("assistant", "a", tool_calls=[]), message("user", "b")]},
    {"input": [message("assistant", "a", reasoning_content="r"), message("assistant", "b", reasoning_content="s")]},
    {"input": [message("assistant", "a", reasoning_content=""), reasoning(["t"])]},
    {"input": [message("assistant", "a", name="x"), message("assistant", "b", name="y")]},
    {"input": [{"role": "assistant"}, {"role": "assistant", "name": "x", "content": "a"}]},
    {"input": [call(), call(name="other"), result("one"), result("two")]},
    {"input": [message("user", "a"), call(), result("r"), message("assistant", "done"), message("user", "b")]},
    {"input": [call(arguments="")]},
    {"input": [call(arguments="[1]")]},
    {"input": [call(arguments="{\"a\": 1")]},
    {"input": [call(arguments=" {\"a\": 1} \n")]},
    {"input": [call(arguments="{\"a\": 1} x")]},
    {"input": [call(arguments="{\"a\": NaN}")]},
    {"input": [call(arguments="{\"a\": 1e999}")]},
    {"input": [call(arguments="{\"a\": \"1e999\", \"b\": 1e3}")]},
    {"input": [call(arguments="{\"a\": " + "9" * 400 + "}")]},
    {"input": [call(arguments="{\"a\": \"\\ud800\"}")]},
    {"input": [call(arguments="{\"a\": \"\\ud83d\\ude00 \\\\ud800 \\u00e9\"}")]},
    {"input": [call(arguments="{\"a\": \"\\ude00\"}")]},
    {"input": [call(arguments="{\"a\": \"tab\there\"}")]},
    {"input": [call(arguments={"a": [1, 2.5, None, {"b": "\u00e9\n"}]})]},
    {"input": [call(arguments=None)]},
    {"input": [call(arguments=5)]},
    {"input": [call(call_id=None, id="fc_1")]},
    {"input": [call(call_id="", id="fc_1")]},
    {"input": [call(id="fc_1", content="x", call_id=None)]},
    {"input": [call(name=None)]},
    {"input": [call(namespace="n")]},
    {"input": [call(status="completed", id="fc_1"), result(text("a", "b")), result([IMAGE, *text("c")])]},
    {"input": [call(), result(None)]},
    {"input": [call(), {"type": "function_call_output", "call_id": "call_1"}]},
    {"input": [call(), result({"a": 1})]},
    {"input": [call(), result([{"type": "input_text", "text": None}])]},
    {"input": [call(), result(["a", {"type": "x"}, {"text": "b"}])]},
    {"input": [call(), result("x", call_id=None)]},
    {"input": [{"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** \"a\"\\\n\t\u0001\u007f\u00e9\U0001f600/"},
               {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"}]},
    {"input": [{"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": None}]},
    {"input": [{"type": "custom_tool_call", "call_id": "c", "name": "apply_patch"}]},
    {"input": [{"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": ""}]},
    {"input": [reasoning(["a", "b"]), message("assistant", "c")]},
    {"input": [reasoning(["a"], ["b"]), message("assistant", "c")]},
    {"input": [reasoning([], ["b", "c"]), call(), result("x")]},
    {"input": [reasoning(), message("assistant", "c")]},
    {"input": [reasoning([""], [""]), message("assistant", "c")]},
    {"input": [reasoning(["a"]), reasoning(["b"]), message("assistant", "c", phase="final_answer")]},
    {"input": [message("assistant", "c", phase="final_answer"), reasoning(["a"])]},
    {"input": [message("assistant", "c"), reasoning(["a"])]},
    {"input": [reasoning(encrypted_content=state("secret \"thought\"\n\u00e9")), call()]},
    {"input": [reasoning(["a"], encrypted_content=state("secret")), call()]},
    {"input": [reasoning(encrypted_content="gAAAAother"), call()]},
    {"input": [reasoning(encrypted_content=state("")), call()]},
    {"input": [{"type": "reasoning", "summary": None, "content": None}, message("user", "a")]},
    {"input": [{"type": "reasoning", "summary": "text"}, message("user", "a")]},
    {"input": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": 5}]}, message("user", "a")]},
    {"input": [{"type": "reasoning", "summary": ["x", {"text": "y"}]}, message("user", "a")]},
    {"input": [{"type": "item_reference", "id": "x"}]},
    {"input": [{"type": "web_search_call", "id": "x", "status": "completed"}]},
    {"input": [{"type": "local_shell_call", "call_id": "x", "action": {}}]},
    {"input": ["text"]},
    {"input": [None]},
    {"input": [message("user", [*text("see"), IMAGE, *text("what?")])]},
    {"input": [message("user", [{**IMAGE, "detail": "high", "max_dynamic_patch": 3}])]},
    {"input": [message("user", [{"type": "input_image", "image_url": {"url": "http://x/y", "max_dynamic_patch": 1}, "max_dynamic_patch": 2}])]},
    {"input": [message("user", [{"type": "input_image", "image_url": {"url": "http://x/y", "detail": "low"}}])]},
    {"input": [message("user", [{"type": "input_image", "file_id": "f"}])]},
    {"input": [message("user", [{"type": "image_url", "image_url": "http://x/y"}])]},
    {"input": [message("user", [{"type": "image_url", "image_url": {"url": "http://x/y"}, "modalities": "image"}])]},
    {"input": [message("user", [{"type": "input_file", "file_id": "f"}])]},
    {"input": [message("user", [{"type": "input_text", "text": None}])]},
    {"input": [message("user", [{"type": "input_text"}])]},
    {"input": [message("assistant", [{"type": "output_text", "text": "a", "annotations": [], "logprobs": None}, {"type": "refusal", "refusal": "no"}])]},
    {"input": "a", "tools": []},
    {"input": "a", "tools": None},
    {"input": "a", "tools": [WEATHER]},
    {"input": "a", "tools": [WEATHER, PATCH], "tool_choice": "auto"},
    {"input": "a", "tools": [WEATHER], "tool_choice": "none"},
    {"input": "a", "tools": [WEATHER], "tool_choice": "required"},
    {"input": "a", "tools": [WEATHER], "tool_choice": None},
    {"input": "a", "tools": [WEATHER], "tool_choice": "any"},
    {"input": "a", "tools": [WEATHER, PATCH], "tool_choice": {"type": "function", "name": "weather"}},
    {"input": "a", "tools": [WEATHER, PATCH], "tool_choice": {"type": "custom", "name": "apply_patch"}},
    {"input": "a", "tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "weather"}}},
    {"input": "a", "tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}},
    {"input": "a", "tools": [WEATHER], "tool_choice": {"type": "web_search"}},
    {"input": "a", "tools": [WEATHER], "tool_choice": {}},
    {"input": "a", "tool_choice": "required"},
    {"input": "a", "tool_choice": "none"},
    {"input": "a", "tools": [{"type": "web_search"}], "tool_choice": "required"},
    {"input": "a", "tools": [{"type": "web_search"}, {"type": "local_shell"}, {"type": "mcp", "server_label": "x"}]},
    {"input": "a", "tools": [{"type": "shell"}]},
    {"input": "a", "tools": [{"type": "unknown"}]},
    {"input": "a", "tools": [{"type": "function"}]},
    {"input": "a", "tools": [{"type": "function", "name": "f"}]},
    {"input": "a", "tools": [{"type": "function", "name": "f", "parameters": None, "description": None}]},
    {"input": "a", "tools": [{"type": "function", "name": "f", "strict": None}]},
    {"input": "a", "tools": [{"type": "function", "name": "f", "parameters": []}]},
    {"input": "a", "tools": [{"type": "function", "function": {"name": "f"}}]},
    {"input": "a", "tools": [{"type": "function", "name": "f", "defer_loading": True, "extra": 1}]},
    {"input": "a", "tools": [{"type": "custom"}]},
    {"input": "a", "tools": [{"type": "custom", "name": "c"}]},
    {"input": "a", "tools": [{"type": "custom", "name": "c", "description": "d", "format": {"type": "text"}}]},
    {"input": "a", "tools": [{"type": "custom", "name": "c", "format": {"type": "grammar"}}]},
    {"input": "a", "tools": [{"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "regex", "definition": "a|b"}}]},
    {"input": "a", "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}]},
    {"input": "a", "reasoning": {}},
    {"input": "a", "reasoning": None},
    {"input": "a", "reasoning": {"effort": None}},
    {"input": "a", "reasoning": {"effort": "low", "summary": "auto"}},
    {"input": "a", "reasoning": {"effort": "none"}},
    {"input": "a", "reasoning": {"effort": "none"}, "chat_template_kwargs": {"enable_thinking": True, "x": 1}},
    {"input": "a", "reasoning": {"effort": "none"}, "chat_template_kwargs": {}},
    {"input": "a", "reasoning": {"reasoning_effort": "none"}},
    {"input": "a", "reasoning": {"effort": None, "reasoning_effort": "none"}},
    {"input": "a", "reasoning": {"effort": "low", "reasoning_effort": "none"}},
    {"input": "a", "reasoning": {"effort": "huge"}},
    {"input": "a", "reasoning": "low"},
    {"input": "a", "chat_template_kwargs": {"enable_thinking": False}},
    {"input": "a", "chat_template_kwargs": None},
    {"input": "a", "chat_template_kwargs": []},
    {"input": "a", "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}},
    {"input": "a", "text": {"format": {"type": "text"}, "verbosity": "low"}},
    # The shape of Codex's requests.
    {"instructions": "You are a coding agent.", "store": False, "stream": True, "parallel_tool_calls": False, "prompt_cache_key": "0199-abc",
     "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "medium", "summary": "auto"}, "tool_choice": "auto",
     "tools": CODEX_TOOLS, "text": {"verbosity": "medium"},
     "input": [message("developer", text("<permissions>none</permissions>")), message("user", text("<environment_context>\n  <cwd>/w</cwd>\n</environment_context>")),
               message("user", text("Fix the test.")), reasoning(encrypted_content=state("Look first.")),
               message("assistant", text("I look.", kind="output_text"), phase="commentary"), call(), result("total 0\n"),
               {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin Patch\n*** End Patch", "status": "completed"},
               {"type": "custom_tool_call_output", "call_id": "c2", "output": "Done!"}]},
]

# A recorded request of the codex CLI, without its texts.
CODEX = os.path.join(os.path.dirname(__file__), "../../dataplane/prompt/responses/testdata/codex.json")
with open(CODEX) as f:
    BODIES.append(json.load(f)["body"])

HISTORY = [
    [("Hello", [{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "phase": "final_answer",
                 "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": None}]}])],
    [([message("user", text("run"))],
      [{"id": "rs_1", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}], "encrypted_content": None, "status": "completed"},
       {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "shell", "arguments": "{\"command\": [\"ls\"]}", "status": "completed"}]),
     ([result("a b")],
      [{"id": "msg_2", "type": "message", "role": "assistant", "status": "completed", "phase": "commentary",
        "content": [{"type": "output_text", "text": "Two files.", "annotations": [], "logprobs": None}]},
       {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c9", "name": "apply_patch", "input": "*** x", "status": None}])],
]
FOLLOWING = [
    {"input": "And now?"},
    {"instructions": "New.", "input": [{"type": "custom_tool_call_output", "call_id": "c9", "output": "ok"}, message("developer", "late")], "tools": [PATCH]},
]


def random_items(r):
    """Items in any order: which of them become one message is the hard part."""
    word = lambda: r.choice(["a", "b\n", "", "\u00e9\"", "x\\"])  # noqa: E731
    parts = lambda kind: text(*[word() for _ in range(r.randint(0, 3))], kind=kind)  # noqa: E731
    makers = [
        lambda: message("user", r.choice([word(), parts("input_text")])),
        lambda: message("system", r.choice([word(), parts("input_text")])),
        lambda: message("developer", r.choice([word(), parts("input_text")])),
        lambda: message("assistant", r.choice([word(), parts("output_text"), None]), **r.choice([{}, {}, {"phase": "commentary"}, {"phase": "final_answer"}])),
        lambda: {"role": "assistant", "content": word(), **r.choice([{}, {"reasoning_content": word()}, {"name": "n"}])},
        lambda: call(arguments=r.choice(["{}", "", "{\"a\": \"\\u00e9\"}", "[]", "null"])),
        lambda: {"type": "custom_tool_call", "call_id": "c", "name": "p", "input": word()},
        lambda: result(r.choice([word(), parts("input_text")])),
        lambda: reasoning([word() for _ in range(r.randint(0, 2))], r.choice([None, [word()]])),
    ]
    return [r.choice(makers)() for _ in range(r.randint(1, 9))]


def main():
    out = []
    for body in BODIES:
        body = {"model": "m", **body}
        for inline in (False, True):
            out.append(run(body, inline, None))
    for turns in HISTORY:
        for body in FOLLOWING:
            for inline in (False, True):
                out.append(run({"model": "m", **body}, inline, turns))
    r = random.Random(1)
    for i in range(240):
        body = {"model": "m", "input": random_items(r)}
        if r.random() < 0.3:
            body["instructions"] = "i"
        out.append(run(body, bool(i % 2), None))
    for line in out:
        sys.stdout.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
