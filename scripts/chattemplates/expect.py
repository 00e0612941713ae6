#!/usr/bin/env python3
"""Renders random conversations with transformers, for the Go test behind the build tag
`templates`.

    python3 scripts/chattemplates/expect.py --out expected.jsonl --count 50 TEMPLATE...
    CHAT_TEMPLATES=$PWD/expected.jsonl go test -tags templates ./dataplane/prompt/chattemplate

A TEMPLATE is a .jinja file, a tokenizer_config.json, or a JSON file {name: {"template": text,
"kwargs": {...}}}. The script needs transformers and jinja2, not torch. Each line of the output is
a template or a case with its rendered text or the error of transformers.
"""

import argparse
import datetime
import json
import os
import random
import sys

import jinja2.meta
import transformers.utils.chat_template_utils as hf

sys.path.insert(0, os.path.dirname(__file__))
import conversations  # noqa: E402

NOW = datetime.datetime(2026, 3, 7, 9, 5, 4)
TOKENS = ["bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"]


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


hf.datetime = Clock


def load(path):
    """Yields (name, template, kwargs) of a file."""
    name = os.path.basename(path)
    text = open(path, encoding="utf-8").read()
    if not path.endswith(".json"):
        yield name, text, {}
        return
    data = json.loads(text)
    if "chat_template" not in data:
        for key, entry in data.items():
            yield key, entry["template"], entry.get("kwargs", {})
        return
    kwargs = {}
    for token in TOKENS:
        given = data.get(token)
        given = given["content"] if isinstance(given, dict) else given
        if given:
            kwargs[token] = given
    name = os.path.basename(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(path))))) + "-" + name
    template = data["chat_template"]
    for entry in template if isinstance(template, list) else [{"name": "", "template": template}]:
        yield name + entry["name"], entry["template"], kwargs


# Names that are no variables of a request: arguments of apply_chat_template and
# render_jinja_template, and functions of the environment.
RESERVED = ["messages", "tools", "add_generation_prompt", "continue_final_message", "chat_template", "raise_exception", "strftime_now",
            "namespace", "range", "dict"]
# Known variables of templates, with values that clients send. Other variables get random values.
KNOWN = {
    "enable_thinking": [True, False, None],
    "thinking": [True, False],
    "reasoning_effort": ["low", "medium", "high", "none", 0.5],
    "date_string": ["26 Jul 2024"],
    "builtin_tools": [["python", "browser"], []],
    "documents": [[{"title": "a", "text": "b"}], [], None],
    "tools_in_user_message": [True, False],
    "add_vision_id": [True, False],
    "thinking_budget": [-1, 0, 512, 100],
    "model_identity": ["You are a test."],
    "clear_thinking": [True, False],
}


def kwargs_of(r, names, tokens):
    out = dict(tokens)
    for token in TOKENS[:2]:
        if token in names and token not in out and r.random() < 0.9:
            out[token] = "<%s>" % token
    for name in sorted(names):
        if name in out or name in RESERVED:
            continue
        if name in KNOWN:
            if r.random() < 0.4:
                out[name] = r.choice(KNOWN[name])
        elif r.random() < 0.15:
            out[name] = conversations.value(r)
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", required=True)
    ap.add_argument("--count", type=int, default=50, help="conversations a template")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("templates", nargs="+")
    opts = ap.parse_args()
    total = raised = 0
    with open(opts.out, "w", encoding="utf-8") as out:

        def line(**entry):
            out.write(json.dumps(entry) + "\n")

        for path in opts.templates:
            for name, template, tokens in load(path):
                try:
                    env = hf._compile_jinja_template(template).environment
                    names = jinja2.meta.find_undeclared_variables(env.parse(template))
                except Exception as e:  # noqa: BLE001
                    line(template=name, source=template, broken=repr(e))
                    continue
                line(template=name, source=template)
                for i in range(opts.count):
                    r = random.Random(f"{opts.seed}/{name}/{i}")
                    messages = conversations.conversation(r)
                    tools = [conversations.tool(r) for _ in range(r.randint(1, 3))] if r.random() < 0.4 else None
                    kwargs = kwargs_of(r, names, tokens)
                    generate = r.random() < 0.8
                    case = dict(template=name, messages=messages, tools=tools, kwargs=kwargs, generate=generate)
                    call = dict(kwargs)
                    try:
                        got, _ = hf.render_jinja_template(
                            [messages], tools=tools, chat_template=template, add_generation_prompt=generate, **call
                        )
                        got[0].encode()
                        case["want"] = got[0]
                    except Exception as e:  # noqa: BLE001
                        case["raised"] = repr(e)[:200]
                        raised += 1
                    total += 1
                    line(**case)
    print(f"{total} cases, {raised} of them raised")


if __name__ == "__main__":
    main()
