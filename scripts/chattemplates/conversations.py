"""Random conversations for an OpenAI-compatible server, typical and unusual."""

import random

WORDS = """hello world the quick brown fox <think> </think> <|im_end|> <|im_start|> [INST] [/INST] <s> </s> {{ x }} {% if %} naïve café
日本語 🙂 👩‍👩‍👧 e\u0301 İ ß \t \x0b \x1f \x85 \u00a0 \u2028 \u200b "quoted" 'single' back\\slash <tool_call> </tool_call> & < > 3.14 -7 None True""".split(" ")
SPACES = [" ", " ", " ", "\n", "\n\n", "  ", "\r\n", ""]
ROLES = ["user", "assistant", "system", "tool", "developer", "ipython", "function", "observation", ""]
NAMES = ["get_weather", "search", "Ünïcode", "python", "calc.add", "items", "f"]


def text(r: random.Random) -> str:
    kind = r.random()
    if kind < 0.06:
        return ""
    if kind < 0.1:
        return r.choice([" ", "\n", " \n\t ", "\u3000", "\x1c"])
    parts = []
    for _ in range(r.randint(1, 12)):
        parts += [r.choice(WORDS), r.choice(SPACES)]
    body = "".join(parts)
    if r.random() < 0.1:
        body = "<think>\n" + body + "\n</think>\n\n" + r.choice(WORDS)
    return r.choice(["", "", "", " ", "\n"]) + body + r.choice(["", "", "", " ", "\n\n"])


def number(r: random.Random):
    return r.choice([0, 1, -1, 42, 2**53, 2**63, -(2**70), 1.5, 1.0, -0.0, 1e16, 1e-5, 1e22, 0.1, 123456789.125, 5e-324])


def scalar(r: random.Random):
    return r.choice([None, True, False, text(r), number(r), ""])


def value(r: random.Random, depth: int = 0):
    kind = r.random()
    if depth > 3 or kind < 0.6:
        return scalar(r)
    if kind < 0.8:
        return [value(r, depth + 1) for _ in range(r.randint(0, 3))]
    return {r.choice(NAMES + WORDS[:6] + ["type", "a b", "keys", "get"]): value(r, depth + 1) for _ in range(r.randint(0, 4))}


def schema(r: random.Random, depth: int = 0) -> dict:
    kind = r.choice(["string", "integer", "number", "boolean", "array", "object", ["string", "null"], None])
    out = {}
    if kind is not None:
        out["type"] = kind
    if r.random() < 0.7:
        out["description"] = text(r)
    if r.random() < 0.2:
        out["enum"] = [scalar(r) for _ in range(r.randint(0, 3))] if r.random() < 0.3 else [r.choice(NAMES) for _ in range(r.randint(1, 3))]
    if r.random() < 0.15:
        out["default"] = value(r, 2)
    if r.random() < 0.1:
        out["nullable"] = r.choice([True, False])
    if kind == "array" and r.random() < 0.8 and depth < 3:
        out["items"] = schema(r, depth + 1)
    if r.random() < 0.05 and depth < 3:
        out[r.choice(["anyOf", "oneOf"])] = [schema(r, depth + 1) for _ in range(2)]
    if kind == "object" or depth == 0:
        if depth == 0:
            out["type"] = "object"
        if depth < 3 and r.random() < 0.9:
            out["properties"] = {n: schema(r, depth + 1) for n in r.sample(NAMES + ["x", "y", "unit"], r.randint(0, 3))}
            if r.random() < 0.6:
                out["required"] = list(out["properties"])[: r.randint(0, 3)]
        if r.random() < 0.1:
            out["additionalProperties"] = False
    return out


def tool(r: random.Random) -> dict:
    f = {"name": r.choice(NAMES)}
    if r.random() < 0.9:
        f["description"] = text(r)
    if r.random() < 0.9:
        f["parameters"] = schema(r)
    if r.random() < 0.1:
        f["strict"] = r.choice([True, False])
    if r.random() < 0.1:
        f["return"] = {"type": "string", "description": text(r)}
    keys = list(f)
    if r.random() < 0.3:
        r.shuffle(keys)
    return {"type": "function", "function": {k: f[k] for k in keys}}


def arguments(r: random.Random) -> dict:
    return {n: value(r, 1) for n in r.sample(NAMES + ["x", "y", "city"], r.randint(0, 3))}


def call(r: random.Random, parsed: bool) -> dict:
    args = arguments(r)
    if not parsed:
        import json

        args = json.dumps(args, ensure_ascii=r.random() < 0.5)
    out = {"type": "function", "function": {"name": r.choice(NAMES), "arguments": args}}
    if r.random() < 0.8:
        out["id"] = r.choice(["call_1", "call_2", "abcdefghi", "123456789"])
    return out


def content(r: random.Random, parts: bool):
    if parts and r.random() < 0.25:
        out = [{"type": "text", "text": text(r)} for _ in range(r.randint(0, 3))]
        if r.random() < 0.2:
            out.append({"type": r.choice(["image", "video", "audio"])})
        return out
    return text(r)


def message(r: random.Random, role: str, parsed: bool, parts: bool) -> dict:
    m = {"role": role, "content": content(r, parts)}
    if role == "assistant":
        if r.random() < 0.25:
            m["tool_calls"] = [call(r, parsed) for _ in range(r.randint(1, 2))]
            if r.random() < 0.5:
                m["content"] = r.choice([None, ""])
        if r.random() < 0.2:
            m["reasoning_content"] = text(r)
        if r.random() < 0.05:
            m["thinking"] = text(r)
    if role == "tool":
        m["tool_call_id"] = r.choice(["call_1", "call_2", "abcdefghi"])
        if r.random() < 0.3:
            m["name"] = r.choice(NAMES)
    if r.random() < 0.04:
        m["content"] = None
    if r.random() < 0.02:
        del m["content"]
    return m


def plain(r: random.Random) -> list:
    """A conversation that every template should take: roles in turn, string contents."""
    out = [{"role": "system", "content": text(r)}] if r.random() < 0.5 else []
    for _ in range(r.randint(0, 4)):
        out += [{"role": "user", "content": text(r)}, {"role": "assistant", "content": text(r)}]
        if r.random() < 0.15:
            out[-1]["reasoning_content"] = text(r)
        if r.random() < 0.15:
            calls = [call(r, True) for _ in range(r.randint(1, 2))]
            for i, c in enumerate(calls):
                c["id"] = f"callcall{i}"
            out[-1] = {"role": "assistant", "content": r.choice(["", text(r)]), "tool_calls": calls}
            out += [{"role": "tool", "tool_call_id": c["id"], "name": c["function"]["name"], "content": text(r)} for c in calls]
            out.append({"role": "assistant", "content": text(r)})
    return out + [{"role": "user", "content": text(r)}]


def conversation(r: random.Random) -> list:
    if r.random() < 0.55:
        return plain(r)
    parsed, parts = r.random() < 0.75, r.random() < 0.5
    out = []
    if r.random() < 0.5:
        out.append(message(r, r.choice(["system", "system", "system", "developer"]), parsed, parts))
    if r.random() < 0.1:  # anything
        return out + [message(r, r.choice(ROLES), parsed, parts) for _ in range(r.randint(1, 6))]
    for turn in range(r.randint(1, 4)):
        out.append(message(r, "user", parsed, parts))
        if turn and r.random() < 0.1:
            break
        reply = message(r, "assistant", parsed, parts)
        if r.random() < 0.85 or reply.get("tool_calls"):
            out.append(reply)
        for c in reply.get("tool_calls") or []:
            if r.random() < 0.9:
                m = message(r, "tool", parsed, parts)
                if "id" in c:
                    m["tool_call_id"] = c["id"]
                out.append(m)
    if r.random() < 0.7 and out[-1]["role"] == "assistant":
        out.append(message(r, "user", parsed, parts))
    return out
