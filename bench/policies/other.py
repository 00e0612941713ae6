"""Made traces for grid.py --held-out: of other kinds and sizes than the families in family.go, on which kv's constants were chosen.

Their rates come from a rule and not from results: workers of the default speed, 8 of them, are 60 % busy if each prompt is computed
once. It is written in Mooncake's format in blocks of 64 tokens.
"""
import itertools
import json
import random

BLOCK = 64
WORKERS, BUSY = 8, 0.6
PREFILL, DECODE = 16_000, 2_900  # tokens a second of one worker: package policies' defaults, the latter with 64 requests of 4,000 tokens


class Maker(random.Random):
    def __init__(self, seed):
        super().__init__(seed)
        self.ids = itertools.count(1)

    def fresh(self, tokens):
        return [next(self.ids) for _ in range(max(1, round(tokens / BLOCK)))]

    def exp(self, mean):
        return self.expovariate(1 / mean)

    def drawn(self, items, exponent):
        sums = list(itertools.accumulate((i + 1) ** -exponent for i in range(len(items))))
        return lambda: self.choices(items, cum_weights=sums)[0]


def prompts(m, n):
    """400 shared prompts of 300 to 12,000 tokens, weight (i+1)^-0.7, and a question of 20 to 1,500."""
    draw = m.drawn([m.fresh(m.uniform(300, 12_000)) for _ in range(400)], 0.7)
    for _ in range(n):
        yield m.exp(1), draw() + m.fresh(m.uniform(20, 1500)), m.uniform(50, 300)


def chats(m, n):
    """Chats behind 60 system prompts, 85 % of requests continue one of 150, answers of 700 tokens."""
    draw, opened = m.drawn([m.fresh(m.uniform(200, 9000)) for _ in range(60)], 1), []
    for _ in range(n):
        go_on = [c for c in (m.choice(opened),) if len(c) < 40_000 // BLOCK] if opened and m.random() < 0.85 else []
        chat = go_on[0] if go_on else list(draw())
        if not go_on:
            opened.append(chat)
            if len(opened) > 150:
                opened.pop(m.randrange(150))
        chat += m.fresh(m.exp(400))
        output = m.exp(700)
        yield m.exp(1), list(chat), output
        chat += m.fresh(output)


def loops(m, n):
    """12 agents with 1,500 to 4,000 tokens of instructions, 3 to 40 calls a task, each appends 2,500 tokens; 20 tasks at a time."""
    agents = [m.fresh(m.uniform(1500, 4000)) for _ in range(12)]
    tasks = []
    for _ in range(n):
        if len(tasks) < 20:
            tasks.append([m.randint(3, 40), m.choice(agents) + m.fresh(m.exp(800))])
        task = m.choice(tasks)
        yield m.exp(1), list(task[1]), m.exp(80)
        task[0] -= 1
        task[1] += m.fresh(m.exp(2500))
        if task[0] == 0 or len(task[1]) > 50_000 // BLOCK:
            tasks.remove(task)


def rush(m, n):
    """One document of 9,000 tokens that four of five requests ask about, 400 requests long, then the next."""
    for i in range(n):
        if i % 400 == 0:
            document = m.fresh(9000)
        yield m.exp(1), document + m.fresh(m.uniform(20, 200)) if m.random() < 0.8 else m.fresh(m.exp(2000)), m.exp(200)


def library(m, n):
    """60 documents of 15,000 to 60,000 tokens, weight (i+1)^-1.2."""
    draw = m.drawn([m.fresh(m.uniform(15_000, 60_000)) for _ in range(60)], 1.2)
    for _ in range(n):
        yield m.exp(1), draw() + m.fresh(m.uniform(50, 300)), m.exp(400)


def mixture(m, n):
    """Chats, documents and prompts that nobody repeats, in bursts of 10."""
    parts = [chats(m, n), library(m, n)]
    for i in range(n):
        gap = m.exp(10) if i % 10 == 0 else 0
        kind = m.random()
        if kind < 0.25:
            yield gap, m.fresh(m.exp(4000)), m.exp(300)
        else:
            yield gap, *next(parts[kind < 0.4])[1:]


KINDS = {f.__name__: f for f in (prompts, chats, loops, rush, library, mixture)}


def write(path, kind, seed, n):
    m = Maker(f"{kind} {seed}")
    requests = [(gap, ids, max(1, round(output))) for gap, ids, output in KINDS[kind](m, n)]
    computed = len({i for _, ids, _ in requests for i in ids}) * BLOCK
    span = (computed / PREFILL + sum(r[2] for r in requests) / DECODE) / (WORKERS * BUSY)
    scale, at = span / sum(r[0] for r in requests), 0.0
    with open(path, "w") as f:
        for gap, ids, output in requests:
            at += gap * scale
            f.write(json.dumps({"timestamp": round(at * 1000), "input_length": len(ids) * BLOCK, "output_length": output,
                                "block_size": BLOCK, "hash_ids": ids}, separators=(",", ":")) + "\n")
