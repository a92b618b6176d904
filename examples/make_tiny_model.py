"""Makes a Hugging Face folder with a tiny Qwen3 of random weights, and conversations to fine-tune it on: what lora.yaml trains.

    .venv/bin/python examples/make_tiny_model.py        # out/tiny-qwen3 and out/conversations.jsonl

Needs transformers and torch from PyPI. A model of your own, and conversations of your own, take their places.
"""
import json
import pathlib
import random

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

OUT = pathlib.Path("out")
COLOURS = ["red", "green", "blue", "yellow", "white", "black"]
THINGS = ["a house", "a boat", "a lamp", "a bird", "a door", "a stone", "a chair", "a hat"]
TEMPLATE = """{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.role == 'assistant' %}{% generation %}{{ message.content }}<|im_end|>
{% endgeneration %}{% else %}{{ message.content }}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def conversation(rng):
    """Two questions about things; every thing always has the same colour."""
    messages = []
    for thing in rng.sample(THINGS, 2):
        colour = COLOURS[THINGS.index(thing) % len(COLOURS)]
        messages.append({"role": "user", "content": rng.choice(["What colour is {}?", "Which colour has {}?"]).format(thing)})
        messages.append({"role": "assistant", "content": f"It is {colour}."})
    return {"messages": messages}


def main():
    OUT.mkdir(exist_ok=True)
    rng = random.Random(1)
    lines = [json.dumps(conversation(rng)) for _ in range(2000)]
    (OUT / "conversations.jsonl").write_text("\n".join(lines) + "\n")

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=512, special_tokens=special,
                                                       initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                                        additional_special_tokens=special[1:2])
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(OUT / "tiny-qwen3")

    torch.manual_seed(1)
    config = Qwen3Config(vocab_size=512, hidden_size=256, intermediate_size=704, num_hidden_layers=4, num_attention_heads=8,
                         num_key_value_heads=4, head_dim=32, max_position_embeddings=512, tie_word_embeddings=True,
                         eos_token_id=tokenizer.eos_token_id, bos_token_id=None, pad_token_id=tokenizer.pad_token_id,
                         initializer_range=0.1)  # the head stays as it is, so its logits must not be small
    Qwen3ForCausalLM(config).save_pretrained(OUT / "tiny-qwen3")
    print(f"wrote {OUT}/tiny-qwen3 and {OUT}/conversations.jsonl")


if __name__ == "__main__":
    main()
