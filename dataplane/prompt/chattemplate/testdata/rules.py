"""Writes rules.jsonl: templates, and what SGLang's own code finds in them.

Usage, with the Python of an SGLang 0.5.23 installation:  python rules.py > rules.jsonl
"""
import json
import pathlib

from sglang.srt.parser.template_detection import REASONING_MODE_RULES, TemplateDetectionContext, detect_inline_system_support, match_rules

LOOP = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
TURNS = "{% for m in messages %}{% if m.role == 'user' %}U {{ m.content }}{% elif m.role == 'assistant' %}A {{ m.content }}{% endif %}{% endfor %}"
STRICT = "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}"
TEMPLATES = {
    "loop": LOOP,
    "turns": TURNS,
    "strict": STRICT,
    "bos": "{{ bos_token }}" + LOOP,
    "bos added": "{{ bos_token + 'x' }}" + LOOP,
    "tools": "{% if tools %}{{ tools | tojson }}{% endif %}" + LOOP,
    "first system only": "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% set messages = messages[1:] %}{% endif %}" + TURNS,
    "qwen3": LOOP + "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}",
    "default false": "{% if not enable_thinking is defined %}{% set enable_thinking = false %}{% endif %}" + LOOP,
    "default true": "{% if not enable_thinking is defined %}{% set enable_thinking = true %}{% endif %}" + LOOP,
    "else true": "{% set enable_thinking = enable_thinking if enable_thinking is defined else true %}" + LOOP,
    "not defined or": "{% if enable_thinking is not defined or enable_thinking %}<think>{% endif %}" + LOOP,
    "namespace": "{% set ns = namespace(enable_thinking=true) %}" + LOOP,
    "filter": "{% set enable_thinking = enable_thinking | default(false) %}" + LOOP,
    "filter true": "{% set enable_thinking = enable_thinking | default(true) %}" + LOOP,
    "thinking false": "{% if not thinking is defined %}{% set thinking = false %}{% endif %}" + LOOP,
    "thinking true": "{% set thinking = thinking if thinking is defined else true %}" + LOOP,
    "thinking filter": "{% set thinking = thinking | default(false) %}" + LOOP,
    "mistral": LOOP + "{% if reasoning_effort == 'high' %}[THINK]{% endif %}",
    "gpt-oss": "<|channel|>analysis" + LOOP,
    "k2": LOOP + "<ifm|think><ifm|think_fast>{{ reasoning_effort }}",
    "hunyuan": LOOP + "{{ reasoning_effort }}{{ reasoning_mode_token }}no_think",
    "nemotron": LOOP + "{% if low_effort %}x{% endif %}{{ truncate_history_thinking }}",
    "forced": LOOP + "{{ '<|im_start|>assistant\\n<think>\\n' }}",
    "agent": (pathlib.Path(__file__).parents[4] / "bench/engines/testdata/agent.jinja").read_text(),
}

for name, template in TEMPLATES.items():
    found = match_rules(TemplateDetectionContext(template, None, False, set()), REASONING_MODE_RULES, "reasoning")
    config = found and {"toggle": found.toggle_param, "special": found.special_case}
    print(json.dumps({"name": name, "template": template, "inline": detect_inline_system_support(template), "config": config}))
