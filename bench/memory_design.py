"""What bench/memory.py measures: models, the knobs of a run with their values, and which of their combinations are run. Which these are
follows from the lists alone, so that two runs of the benchmark have the same rows."""

import itertools


def llama(hidden, layers, heads, key_value_heads, intermediate):
    return ("llama", {"vocab_size": 256, "max_position_embeddings": 1024, "hidden_size": hidden, "num_hidden_layers": layers,
                      "num_attention_heads": heads, "num_key_value_heads": key_value_heads, "intermediate_size": intermediate})


def gpt2(vocabulary, hidden, layers, heads):
    return ("gpt2", {"vocab_size": vocabulary, "n_positions": 1024, "n_embd": hidden, "n_layer": layers, "n_head": heads})


MODELS = {
    "gpt2-3m": gpt2(256, 256, 4, 4),
    "llama-10m": llama(384, 6, 6, 2, 1024),
    "llama-45m": llama(640, 10, 10, 5, 1728),
    "gpt2-124m": gpt2(50257, 768, 12, 12),
}

# `budget` is a part of the device memory that a run needs which holds all there and recomputes nothing; host memory is what the machine
# has. `optimizer_state` is where master and moments live, as in memory.placement.
KNOBS = {
    "model": list(MODELS),
    "budget": ["1/4", "1", "1/2", "1/8"],
    "sequence": [512, 128, 1024],
    "recompute": ["auto", "none", "full"],
    "precision": ["bf16", "fp32", "fp16"],
    "master": ["fp32", "split"],
    "moments": ["fp32", "bf16"],
    "ranks": [1, 2],
    "optimizer_state": ["auto", "nvme"],
}
BASE = {knob: values[0] for knob, values in KNOBS.items()} | {"model": "llama-10m"}
PLACES = ("budget", "recompute", "optimizer_state")  # knobs that change no result: such runs have one resident run to compare with


def is_valid(case):
    return case["master"] == "fp32" or case["precision"] == "bf16"


def pairs_of(case):
    return set(itertools.combinations(case.items(), 2))


def cover_pairs(cases, every):
    """Cases that, with those given, have each two values of two knobs together which any case has. Greedy: always the first of those
    that add most; small models come first."""
    missing = set().union(*map(pairs_of, every)) - set().union(*map(pairs_of, cases))
    added = []
    while missing:
        best = max(every, key=lambda case: len(pairs_of(case) & missing))
        added.append(best)
        missing -= pairs_of(best)
    return added


def cases(quick):
    """The base with each knob at each value, each model with each budget, and all pairs of values. quick: the two smallest models, and not
    all pairs."""
    models = KNOBS["model"][:2] if quick else KNOBS["model"]
    chosen = [BASE | {"model": model, "budget": budget} for model in models for budget in KNOBS["budget"]]
    chosen += [BASE | {knob: value} for knob, values in KNOBS.items() if knob != "model" for value in values]
    if not quick:
        every = (dict(zip(KNOBS, values)) for values in itertools.product(*KNOBS.values()))
        chosen += cover_pairs(chosen, list(filter(is_valid, every)))
    return [dict(items) for items in dict.fromkeys(tuple(case.items()) for case in chosen)]


def groups(chosen):
    """Cases of one resident run, together: [(what they share, [case, …])]."""
    shared = lambda case: tuple(item for item in case.items() if item[0] not in PLACES)
    found = {}
    for case in chosen:
        found.setdefault(shared(case), []).append(case)
    return [(dict(key), members) for key, members in found.items()]
