#!/usr/bin/env python3
"""Stands in for examples/make_tiny_model.py where torch and transformers are not installed: tiny_model.py

Writes out/tiny-qwen3 and out/conversations.jsonl as the example does. The model is smaller, and each byte is a token."""
import json
import pathlib
import random
import struct
import sys
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
sys.modules |= {name: unittest.mock.MagicMock() for name in ("torch", "tokenizers", "transformers")}  # only its main needs them
import make_tiny_model  # noqa: E402  pylint: disable=wrong-import-position

OUT = pathlib.Path("out")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
HIDDEN, INTERMEDIATE, LAYERS, HEADS, KEY_HEADS, HEAD = 32, 64, 2, 2, 1, 16


def byte_characters():
    """The character that stands for each byte in GPT-2's vocabulary."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) for byte in shown] + [chr(256 + index) for index in range(len(hidden))]


def tokenizer():
    vocabulary = {text: number for number, text in enumerate(SPECIAL + byte_characters())}
    added = [{"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for number, text in enumerate(SPECIAL)]
    bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return vocabulary, {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                        "pre_tokenizer": bytes_of, "post_processor": None, "decoder": bytes_of,
                        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                                  "vocab": vocabulary, "merges": []}}


def shapes(vocabulary_size):
    yield "model.embed_tokens.weight", (vocabulary_size, HIDDEN)
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        yield name + "input_layernorm.weight", (HIDDEN,)
        yield name + "self_attn.q_proj.weight", (HEADS * HEAD, HIDDEN)
        yield name + "self_attn.k_proj.weight", (KEY_HEADS * HEAD, HIDDEN)
        yield name + "self_attn.v_proj.weight", (KEY_HEADS * HEAD, HIDDEN)
        yield name + "self_attn.o_proj.weight", (HIDDEN, HEADS * HEAD)
        yield name + "self_attn.q_norm.weight", (HEAD,)
        yield name + "self_attn.k_norm.weight", (HEAD,)
        yield name + "post_attention_layernorm.weight", (HIDDEN,)
        yield name + "mlp.gate_proj.weight", (INTERMEDIATE, HIDDEN)
        yield name + "mlp.up_proj.weight", (INTERMEDIATE, HIDDEN)
        yield name + "mlp.down_proj.weight", (HIDDEN, INTERMEDIATE)
    yield "model.norm.weight", (HIDDEN,)


def write_weights(path, vocabulary_size, rng):
    header, data = {}, bytearray()
    for name, shape in shapes(vocabulary_size):
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = [rng.gauss(0, 0.1) for _ in range(count)] if len(shape) == 2 else [1.0] * count
        begin = len(data)
        data += struct.pack(f"<{count}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    rng = random.Random(1)
    folder = OUT / "tiny-qwen3"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(make_tiny_model.conversation(rng)) for _ in range(100)]
    (OUT / "conversations.jsonl").write_text("\n".join(lines) + "\n")
    vocabulary, description = tokenizer()
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": len(vocabulary), "hidden_size": HIDDEN,
              "intermediate_size": INTERMEDIATE, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
              "num_key_value_heads": KEY_HEADS, "head_dim": HEAD, "max_position_embeddings": 512, "tie_word_embeddings": True,
              "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "eos_token_id": 2, "pad_token_id": 0}
    for name, content in (("tokenizer.json", description), ("config.json", config),
                          ("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SPECIAL[2],
                                                     "pad_token": SPECIAL[0], "chat_template": make_tiny_model.TEMPLATE})):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False) + "\n")
    write_weights(folder / "model.safetensors", len(vocabulary), rng)
    print(f"wrote {folder} and {OUT}/conversations.jsonl")


if __name__ == "__main__":
    main()
