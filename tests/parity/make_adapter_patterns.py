"""Writes ../model/adapter_patterns.json: random patterns and the layers' names that PEFT matches with them (see README.md).

    .venv/bin/python tests/parity/make_adapter_patterns.py [COUNT] [SEED]
"""
import json
import pathlib
import random
import re
import sys

from peft.utils.other import get_pattern_key

OUTPUT = pathlib.Path(__file__).parent.parent / "model" / "adapter_patterns.json"
NAMES = [f"model.layers.{layer}.{part}" for layer in (0, 1, 10, 21)
         for part in ("self_attn.q_proj", "self_attn.k_proj", "mlp.up_proj", "mlp.down_proj")]
NAMES += ["transformer.h.1.attn.c_attn", "transformer.h.11.mlp.c_proj", "h.1.attn.c_proj"]
PIECES = ["model", "layers", "self_attn", "mlp", "q_proj", "k_proj", "up_proj", "down_proj", "proj", "c_attn", "h", "0", "1", "10", ".",
          r"\.", ".*", ".+", r"\d", r"\d+", r"\w+", "[qk]", "[^k]_proj", "[0-9]+", "[01]", "(q|k)_proj", "(?:up|down)", "_", "|", "^", "$",
          "1?", "(?=m)", "(?!0)", r"\b", "(.)", "{1,2}", "[.]", "(?i)", "*?", "[_a-z]*", "P"]


def random_pattern(generator):
    if generator.random() < 0.3:
        name = generator.choice(NAMES)
        return generator.choice([name, re.escape(name), name.rpartition(".")[2], ".*" + name[generator.randrange(len(name)):]])
    return "".join(generator.choice(PIECES) for _ in range(generator.randint(1, 6)))


def main():
    count, seed = int(sys.argv[1]) if len(sys.argv) > 1 else 150, int(sys.argv[2]) if len(sys.argv) > 2 else 54
    generator = random.Random(seed)
    cases = []
    while len(cases) < count:
        pattern = random_pattern(generator)
        try:
            matched = [name for name in NAMES if get_pattern_key([pattern], name) == pattern]
        except re.error:
            continue
        if matched or generator.random() < 0.2:
            cases.append({"pattern": pattern, "matches": matched})
    OUTPUT.write_text(json.dumps({"names": NAMES, "cases": cases}, indent=0) + "\n")


if __name__ == "__main__":
    main()
