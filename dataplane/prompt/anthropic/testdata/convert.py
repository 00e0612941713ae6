"""Writes vectors.jsonl: bodies of /v1/messages and the chats that SGLang's own code makes of them.

Usage, with the Python of an SGLang 0.5.23 installation:  python convert.py > vectors.jsonl

A line: {"name", "rules", "body", "chat" | "refused"}. rules names the model: see RULES. chat has the messages, tools,
tool_choice, chat_template_kwargs and reasoning_effort of the ChatCompletionRequest; refused is the error of SGLang's
pydantic models or of its conversion, which clients get with status 400.
"""
import json
import random
import sys
import types

from sglang.srt.entrypoints.anthropic.protocol import AnthropicMessagesRequest
from sglang.srt.entrypoints.anthropic.serving import AnthropicServing
from sglang.srt.entrypoints.openai.serving_chat import OpenAIServingChat
from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.parser.template_detection import ReasoningToggleConfig

RULES = {
    "plain": dict(parser=None, inline=False, config=None),
    "inline": dict(parser=None, inline=True, config=None),
    "qwen3": dict(parser="qwen3", inline=True, config=ReasoningToggleConfig("enable_thinking", True)),
    "deepseek-r1": dict(parser="deepseek-r1", inline=False, config=None),
    "mistral": dict(parser="mistral", inline=False, config=ReasoningToggleConfig(special_case="mistral")),
}


def serving(rules):
    """An AnthropicServing over the parts of OpenAIServingChat that its conversion asks."""
    chat = object.__new__(OpenAIServingChat)
    chat.supports_inline_system = rules["inline"]
    chat.reasoning_parser = rules["parser"]
    chat.chat_encoding_spec = None
    chat._reasoning_detector = rules["parser"] and ReasoningParser(rules["parser"]).detector
    chat._template_reads_reasoning_content = False
    chat.template_manager = types.SimpleNamespace(reasoning_config=rules["config"], chat_template_name=None)
    return AnthropicServing(chat)


def expect(rules, body):
    try:
        request = AnthropicMessagesRequest.model_validate(json.loads(body))
        chat = serving(RULES[rules])._convert_to_chat_completion_request(request)
    except Exception as error:
        return {"refused": type(error).__name__ + ": " + str(error)[:200]}
    out = {"messages": [m.model_dump(exclude_none=True, exclude_unset=True) for m in chat.messages]}
    if chat.tools:
        out["tools"] = [t.model_dump(exclude_none=True) for t in chat.tools]
        out["tool_choice"] = chat.tool_choice if isinstance(chat.tool_choice, str) else chat.tool_choice.model_dump()
    if chat.chat_template_kwargs:
        out["chat_template_kwargs"] = chat.chat_template_kwargs
    if chat.reasoning_effort:
        out["reasoning_effort"] = chat.reasoning_effort
    return {"chat": out}


def user(content):
    return {"role": "user", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


def text(t, **more):
    return {"type": "text", "text": t, **more}


def image(data="aGk="):
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def use(name="Read", arguments=None, id="toolu_1"):
    return {"type": "tool_use", "id": id, "name": name, "input": {} if arguments is None else arguments}


def result(content, id="toolu_1", **more):
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def thinking(t):
    return {"type": "thinking", "thinking": t, "signature": "c2ln"}


def tool(name="Read", **more):
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
              "properties": {"path": {"type": "string", "description": "a \"path\"\n"}}, "required": ["path"],
              "additionalProperties": False}
    return {"name": name, "description": "Reads a file.\n\tÄ", "input_schema": schema, **more}


CACHE = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
HI = [user("hi")]
CASES = {
    "text": dict(messages=HI),
    "system": dict(system="Be brief.\nAlways. é", messages=HI),
    "blank system": dict(system=" \n\t ", messages=HI),
    "blank system of separators": dict(system="\x1c\x1f\x85\u2003", messages=HI),
    "system that begins with space": dict(system="  x ", messages=HI),
    "system blocks": dict(system=[text("x-anthropic-billing-header: cc_version=2; cch=0;"), text("You are an agent.", **CACHE), text("\nMore.", **CACHE)], messages=HI),
    "system blocks, an empty one": dict(system=[text(""), text("a")], messages=HI),
    "system without text": dict(system=[text("")], messages=HI),
    "empty system list": dict(system=[], messages=HI),
    "system message inside": dict(system="S", messages=[user("a"), {"role": "system", "content": "  later \n"}, assistant("b"), user("c")]),
    "system blocks inside": dict(messages=[user("a"), {"role": "system", "content": [text(" x "), text(" "), text("y\"")]}, user("c")]),
    "blocks": dict(messages=[user([text("a", **CACHE), text("b")]), assistant([text("c")]), user([text("d")])]),
    "empty text block": dict(messages=[user("a"), assistant([text("")]), user("b")]),
    "no blocks": dict(messages=[user("a"), assistant([]), user("b")]),
    "no blocks of a user": dict(messages=[user([]), user("b")]),
    "tool turn": dict(tools=[tool()], messages=[user("read"), assistant([text("I read."), use(arguments={"path": "a/\"b\"\\n", "n": 1.0, "deep": [{"x": None}]})]), user([result("content\n\u0001")])]),
    "tools without text": dict(tools=[tool()], messages=[user("read"), assistant([use()]), user([result("x")])]),
    "parallel tools": dict(tools=[tool(), tool("Bash")], messages=[user("go"), assistant([use(id="1"), use("Bash", {"command": "ls"}, "2")]), user([result("one", "1"), result("two", "2")])]),
    "text between results": dict(messages=[user("go"), assistant([use(id="1"), text("between"), use(id="2")]), user([text("before"), result("one", "1"), text("mid"), result("two", "2"), text("a"), text("b")])]),
    "result of blocks": dict(messages=[user("go"), assistant([use()]), user([result([text("one"), text(""), text("two")])])]),
    "result of one block": dict(messages=[user("go"), assistant([use()]), user([result([text("one", **CACHE)], is_error=True, **CACHE)])]),
    "empty results": dict(messages=[user("go"), assistant([use(id="1"), use(id="2"), use(id="3")]), user([result("", "1"), result([], "2"), {"type": "tool_result", "tool_use_id": "3"}])]),
    "result with an image": dict(messages=[user("go"), assistant([use()]), user([result([text("one"), image(), text("two")])])]),
    "result of an image": dict(messages=[user("go"), assistant([use()]), user([result([image()])])]),
    "result by id": dict(messages=[user("go"), assistant([use()]), user([{"type": "tool_result", "id": "toolu_1", "content": "x"}])]),
    "references": dict(messages=[user("go"), assistant([use()]), user([result([{"type": "tool_reference", "tool_name": "A"}, {"type": "tool_reference", "name": "B"}, text("t"), {"type": "tool_reference", "tool_name": "C"}])])]),
    "image": dict(messages=[user([image(), text("what?")])]),
    "image by URL": dict(messages=[user([text("what?"), {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}])]),
    "image without data": dict(messages=[user([image(""), text("what?")])]),
    "image alone": dict(messages=[user([image()])]),
    "thinking": dict(messages=[user("a"), assistant([thinking("hm\n\"so\""), text("b")]), user("c")]),
    "thinking twice": dict(messages=[user("a"), assistant([thinking("one"), thinking(""), thinking("two"), text("b"), use()]), user([result("x")])]),
    "thinking alone": dict(messages=[user("a"), assistant([thinking("one")]), user("c")]),
    "redacted thinking": dict(messages=[user("a"), assistant([{"type": "redacted_thinking", "data": "x"}, text("b")]), user("c")]),
    "search result": dict(messages=[user([{"type": "search_result", "title": "T", "source": "s", "content": [text("c")]}])]),
    "unknown block": dict(messages=[user([{"type": "document", "source": {}}])]),
    "prefill": dict(messages=[user("a"), assistant("The answer is")]),
    "server tools": dict(tools=[{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}, tool()], messages=HI),
    "server tools alone": dict(tools=[{"type": "bash_20250124", "name": "bash"}], messages=HI),
    "custom tool": dict(tools=[tool(type="custom", strict=True, **CACHE)], messages=HI),
    "tool with examples": dict(tools=[tool(input_examples=[{"path": "x"}], eager_input_streaming=True)], messages=HI),
    "deferred tool": dict(tools=[tool(defer_loading=True), tool("B", defer_loading=False)], messages=HI),
    "tool without description": dict(tools=[{"name": "x", "input_schema": {"type": "object"}}], messages=HI),
    "schema without type": dict(tools=[{"name": "x", "input_schema": {}}, {"name": "y", "input_schema": {"properties": {}}}], messages=HI),
    "tool without schema": dict(tools=[{"name": "x"}], messages=HI),
    "unknown tool": dict(tools=[tool(type="memory_20250818")], messages=HI),
    "choice any": dict(tools=[tool()], tool_choice={"type": "any"}, messages=HI),
    "choice auto": dict(tools=[tool()], tool_choice={"type": "auto", "disable_parallel_tool_use": True}, messages=HI),
    "choice none": dict(tools=[tool()], tool_choice={"type": "none"}, messages=HI),
    "choice of a tool": dict(tools=[tool(), tool("B")], tool_choice={"type": "tool", "name": "B"}, messages=HI),
    "choice of no tool": dict(tools=[tool()], tool_choice={"type": "tool", "name": "B"}, messages=HI),
    "choice without tools": dict(tool_choice={"type": "any"}, messages=HI),
    "choice auto without tools": dict(tool_choice={"type": "auto"}, messages=HI),
    "thinking on": dict(thinking={"type": "enabled", "budget_tokens": 1024}, messages=HI),
    "thinking adaptive": dict(thinking={"type": "adaptive", "display": "omitted"}, messages=HI),
    "thinking off": dict(thinking={"type": "disabled"}, messages=HI),
    "thinking wrong": dict(thinking={"type": "enabled"}, messages=HI),
    "effort": dict(output_config={"effort": "xhigh"}, messages=HI),
    "effort and thinking": dict(output_config={"effort": "medium"}, thinking={"type": "adaptive"}, messages=HI),
    "format": dict(output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}}, messages=HI),
    "unknown fields": dict(context_management={"edits": []}, mcp_servers=[], container=None, service_tier="auto", betas=["x"], metadata={"user_id": "u"}, messages=HI),
    "a bad role": dict(messages=[{"role": "tool", "content": "x"}]),
    "no content": dict(messages=[{"role": "user"}]),
    "null content": dict(messages=[user(None)]),
    "number content": dict(messages=[user(1)]),
    "text of a number": dict(messages=[user([text(1)])]),
    "input of a list": dict(messages=[user("a"), assistant([use(arguments=[1])])]),
    "surrogates": dict(messages=[user("\U0001f600 \u2028 \x7f")]),
    "system with a tool": dict(system=[use()], messages=HI),
}


def mixture(rng):
    """A conversation of random blocks."""
    words = lambda: " ".join(rng.choice(["alpha", "βeta", "\n", "\"q\"", "\\", "x\ty", ""]) for _ in range(rng.randint(0, 5)))
    messages = []
    for turn in range(rng.randint(1, 6)):
        blocks = [rng.choice([lambda: text(words()), lambda: text(words(), **CACHE)])() for _ in range(rng.randint(0, 3))]
        if turn % 2:
            blocks = [thinking(words()) for _ in range(rng.randint(0, 2))] + blocks
            blocks += [use(rng.choice(["Read", "Bash"]), {words(): words(), "n": rng.randint(0, 9)}, f"t{turn}{i}") for i in range(rng.randint(0, 3))]
        else:
            blocks += [result(rng.choice([words(), [text(words()), text(words())], [image()], []]), f"t{i}") for i in range(rng.randint(0, 2))]
            rng.shuffle(blocks)
        content = words() if rng.random() < 0.2 else blocks
        messages.append((assistant if turn % 2 else user)(content))
    body = dict(messages=messages)
    if rng.random() < 0.6:
        body["system"] = rng.choice([words(), [text(words()) for _ in range(3)]])
    if rng.random() < 0.6:
        body["tools"] = [tool(), tool("Bash")]
    return body


def write(name, rules, body, ascii):
    body = json.dumps({"model": "m", "max_tokens": 16, **body}, ensure_ascii=ascii, separators=(",", ":") if ascii else (", ", ": "))
    print(json.dumps({"name": name, "rules": rules, "body": body, **expect(rules, body)}, ensure_ascii=True))


rng = random.Random(1)
for name, body in CASES.items():
    for rules in RULES:
        if rules in ("plain", "qwen3") or "think" in name or "effort" in name or "inside" in name:
            write(name, rules, body, rng.random() < 0.5)
for i in range(60):
    write(f"mixture {i}", rng.choice(list(RULES)), mixture(rng), rng.random() < 0.5)
