#!/usr/bin/env python3
"""Makes tests/text/goldens/spans.json with the PyPI package tokenizers 0.23.3: make_spans.py

Stretches of texts, in characters, and their tokens. A stretch has all tokens whose characters overlap its own, as
transformers finds the tokens of what an assistant says. Stretches that begin or end where no token stands are left out: a token
of spaces alone stands nowhere for some post-processors. So are unigrams with bytes, where all bytes of neighbouring unknown
characters have the place of all of these."""
import json
import pathlib
import random

from tokenizers import Tokenizer

GOLDENS = pathlib.Path(__file__).parent / "goldens"
FAMILIES = ["gpt2", "llama3", "qwen2", "llama2", "mistral", "gemma", "t5"]
TEXTS = ["<s>user\nWhat is 12 + 30?</s>\n<s>assistant\nIt is **42**.\n\nIs it – so?</s>\n",
         "[INST] Grüße, 你好 – what   is this? [/INST] A text:\n\n\tint main() { return 0; }\n</s>",
         "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n  two spaces, l'été\r\n<|im_end|>\n",
         "<|begin_of_text|>a<|eot_id|> b <s> c</s>  d ", "x", " y z"]


def cases_of(family):
    tokenizer = Tokenizer.from_file(str(GOLDENS / f"{family}.tokenizer.json"))
    chance = random.Random(family)
    for text in TEXTS:
        encoded = tokenizer.encode(text, add_special_tokens=False)
        if tokenizer.token_to_id("<unk>") in encoded.ids:
            continue
        spans = []
        for _ in range(40):
            begin = chance.randrange(len(text))
            end = chance.randrange(begin, len(text)) + 1
            tokens = [i for i, (first, last) in enumerate(encoded.offsets) if first < end and last > begin]
            if encoded.char_to_token(begin) is not None and encoded.char_to_token(end - 1) is not None:
                spans.append([len(text[:begin].encode()), len(text[:end].encode()), tokens[0], tokens[-1] + 1])
        yield {"text": text, "ids": encoded.ids, "spans": spans}


goldens = {family: list(cases_of(family)) for family in FAMILIES}
lines = [json.dumps(family) + ": [\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]"
         for family, cases in goldens.items()]
(GOLDENS / "spans.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
