#!/usr/bin/env python3
"""Makes tests/data/goldens/conversations.json with the PyPI packages transformers 5 and tokenizers 0.23.3:

    make_conversations.py [FILE OF_EACH_FAMILY]    another file of more, which STRATA_TEST_CONVERSATIONS names to data_test

Ids and the assistant's mask of conversations, from apply_chat_template(return_assistant_tokens_mask=True) with small
tokenizers of tests/text and templates of tests/chat."""
import json
import pathlib
import random
import sys

from transformers import PreTrainedTokenizerFast

TESTS = pathlib.Path(__file__).parents[1]
TEMPLATE = (TESTS / "chat/templates/chatml_generation.jinja").read_text()
FAMILIES = {"qwen2": "<|im_end|>", "gemma": "</s>", "llama2": "</s>"}
WORDS = ["what is", " 12 + 30", "\n\n", "  ", "Grüße", "你好", "🙂", "it is **42**.", "def f():\n\treturn 1\n", "l'été", "<think>", "</s>", "cafe\u0301", "e\u0301\u0323 ﬁ"]


def conversation(chance):
    said = lambda: "".join(chance.choice(WORDS) for _ in range(chance.randrange(1, 6)))
    messages = [{"role": "system", "content": said()}] if chance.random() < 0.3 else []
    for _ in range(chance.randrange(1, 4)):
        messages += [{"role": "user", "content": said()}, {"role": "assistant", "content": said()}]
    return messages


def cases_of(family, end, count):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(TESTS / f"text/goldens/{family}.tokenizer.json"), eos_token=end)
    tokenizer.chat_template = TEMPLATE
    chance = random.Random(family)
    for _ in range(count):
        messages = conversation(chance)
        made = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        yield {"messages": messages, "ids": made["input_ids"], "mask": "".join(map(str, made["assistant_masks"]))}


count = int(sys.argv[2]) if len(sys.argv) > 1 else 16
lines = [json.dumps(family) + ": [\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases_of(family, end, count)) +
         "\n]" for family, end in FAMILIES.items()]
file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else TESTS / "data/goldens/conversations.json"
file.parent.mkdir(exist_ok=True)
file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
