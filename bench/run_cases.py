"""The run files that compare_runs.py trains: CASES is the table of what they cover, each line on top of BASE.

Models are so small that a command takes about a second, most of it to start. Paths are relative to a folder with the inputs.
"""

import collections
import json
import pathlib
import shlex
import subprocess
import sys

Case = collections.namedtuple("Case", "name settings ranks then", defaults=({}, 1, ()))

BASE = {
    "model.architecture": "llama",
    "data": {"path": "corpus.txt", "sequence_length": 24},
    "train": {"steps": 3, "batch": 4, "microbatch": 2, "seed": 3, "precision": "fp32", "threads": 1},
    "optimizer.lr": 1e-2,
    "memory.host": "64MiB",
    "checkpoint.path": "out",
    "report.metrics": "metrics.jsonl",
    "plan.machine": "machine.json",  # without a profile reports predict by measured rates
}
DECODER = {"num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
           "vocab_size": 256}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "mlp_only_layers": [1]}
CONFIGS = {
    "llama": DECODER,
    "gpt2": {"n_layer": 3, "n_embd": 32, "n_head": 4, "n_positions": 32, "vocab_size": 256},
    "mistral": DECODER | {"sliding_window": 8},
    "qwen2": DECODER,
    "qwen3": DECODER | {"head_dim": 16, "tie_word_embeddings": True},
    "olmo2": DECODER,
    "phi3": DECODER | {"sliding_window": 8, "pad_token_id": 0, "resid_pdrop": 0.1, "embd_pdrop": 0.1},
    "granite": DECODER | {"residual_multiplier": 0.5, "logits_scaling": 2.0},
    "gemma2": DECODER | {"head_dim": 16, "sliding_window": 8},
    "gemma3_text": DECODER | {"head_dim": 16, "sliding_window": 8, "sliding_window_pattern": 2},
    "mixtral": DECODER | {"num_local_experts": 4},
    "qwen3_moe": DECODER | EXPERTS | {"head_dim": 8, "output_router_logits": True},
}
NVME = {"memory.nvme": {"path": "drive", "size": "64MiB"}}
CHATS = {
    "model": {"architecture": None, "path": "out/tiny-qwen3"},
    "data": {"path": "out/conversations.jsonl", "tokenizer": "auto", "packing": "whole", "sequence_length": 128, "cache": "cache"},
    "checkpoint.path": "out/run",
}
DOCUMENTS = {"data.path": "parts/*.txt", "data.packing": "documents"}
SINGLE = {"train.microbatch": 1}
SIX_LAYERS = {"model.config.num_hidden_layers": 6}
EXPORT = "export out exported"
MERGE = "export out merged --merge"


def of(architecture, **settings):
    return {"model.architecture": architecture, **settings}


def ranks(**layout):
    return {f"parallel.{key}": value for key, value in layout.items()}


CASES = [
    # Families, each with random weights. Some have another precision, samples or an export on top.
    Case("family gpt2", of("gpt2"), 1, (EXPORT,)),
    Case("family llama", {"train.validate_every": 2, "train.validation_batches": 3}, 1,
         (EXPORT, "generate exported --tokenizer bytes --prompt ab --max-tokens 4 --threads 1 --json generated.json")),
    Case("family mistral", of("mistral") | {"train.precision": "bf16"}),
    Case("family qwen2", of("qwen2") | {"train.precision": "bf16"}),
    Case("family qwen3", of("qwen3"), 1, (EXPORT,)),
    Case("family olmo2", of("olmo2")),
    Case("family phi3, dropout", of("phi3") | {"train.dropout": True}),
    Case("family granite", of("granite")),
    Case("family gemma2", of("gemma2") | {"train.precision": "bf16"}, 1, (EXPORT,)),
    Case("family gemma3_text", of("gemma3_text"), 1, (EXPORT,)),
    Case("family mixtral", of("mixtral") | {"train.precision": "bf16"}),
    Case("family qwen3_moe, auxiliary loss", of("qwen3_moe"), 1, (EXPORT,)),
    # Precisions and how activations are kept.
    Case("bf16, recompute none", {"train.precision": "bf16", "train.recompute": "none"}),
    Case("bf16, recompute full", {"train.precision": "bf16", "train.recompute": "full"}),
    Case("fp16, a skipped step", {"train.precision": "fp16", "train.loss_scale": {"initial": 2.0**40, "backoff": 2.0**-24}}),
    Case("fp8", {"train.precision": "fp8"}),
    Case("fp8, trained_as fp8, tiny budget", {"train.precision": "fp8", "memory.trained_as": "fp8", "memory.device": "384KiB"}),
    # Optimizers and policies.
    Case("sgd", {"optimizer.type": "sgd"}),
    Case("lion in bf16", {"optimizer": {"type": "lion", "lr": 1e-4, "moments": "bf16"}}),
    Case("rmsprop with momentum", {"optimizer": {"type": "rmsprop", "alpha": 0.95, "momentum": 0.9}}),
    Case("adagrad", {"optimizer": {"type": "adagrad", "lr": 0.01}}),
    Case("sgd with momentum in bf16", {"optimizer": {"type": "sgd", "momentum": 0.9, "moments": "bf16"}}),
    Case("groups, decay of all, no clipping", {"optimizer": {"decay": "all", "clip_norm": 0, "groups": [
        {"tensors": "*norm*", "weight_decay": 0}, {"tensors": ["*embed_tokens*"], "lr_factor": 0.1}]}}),
    Case("split master, bf16 moments", {"train.precision": "bf16", "optimizer": {"master": "split", "moments": "bf16"}}),
    Case("cosine with warm-up, freeze", {"optimizer.schedule": {"type": "cosine", "warmup": 1, "minimum_ratio": 0.1},
                                         "train.freeze": ["*embed_tokens*", "*.mlp.*"]}),
    Case("wsd", {"optimizer.schedule": {"type": "wsd", "warmup": 1, "decay_ratio": 0.5, "shape": "sqrt"}}),
    # Adapters.
    Case("lora, merged", {"adapter": {"type": "lora", "rank": 4, "dropout": 0.1}}, 1, (EXPORT, MERGE)),
    Case("rslora with patterns", {"adapter": {"type": "rslora", "rank": 4, "targets": ["q_proj", "v_proj"], "rank_pattern": {"v_proj": 2}}},
         1, (EXPORT,)),
    Case("dora of gpt2, merged", of("gpt2") | {"adapter": {"type": "dora", "rank": 4}}, 1, (MERGE,)),
    Case("qlora nf4, bf16, merged", {"adapter": {"type": "lora", "rank": 4}, "memory.frozen_as": "nf4", "train.precision": "bf16"}, 1,
         (MERGE,)),
    Case("qlora int8, dora", {"adapter": {"type": "dora", "rank": 4}, "memory.frozen_as": "int8"}),
    Case("lora on fp8, frozen_as fp8", {"adapter": {"type": "lora", "rank": 4}, "memory.frozen_as": "fp8", "train.precision": "fp8"}),
    # Budgets, places, drives, orders.
    Case("tiny budget, auto", {"memory.device": "320KiB", "train.precision": "bf16"}),
    Case("all on the host", {"memory.placement": {"parameters": "host", "optimizer_state": "host", "activations": "host"}}),
    Case("state on a drive", NVME | {"memory.placement": {"parameters": "nvme", "optimizer_state": "nvme"}, "memory.nvme.verify": True}),
    Case("activations and gradients on a drive, threads", NVME | {"memory.placement": {"activations": "nvme", "gradients": "nvme"},
                                                                    "memory.nvme.engine": "threads", "train.recompute": "none"}),
    Case("layer_major, serial lanes", {"plan": {"order": "layer_major", "lanes": "serial"}, "memory.device": "512KiB"}),
    Case("microbatch_major", {"plan.order": "microbatch_major", "memory.device": "512KiB"}, 1,
         ("plan run.yaml --simulate --schedule",)),
    Case("nominal rates", {"plan.machine": None, "memory.device": "512KiB"}),
    Case("experts on a drive, tiny budget", of("qwen3_moe") | NVME | {"memory.device": "512KiB",
                                                                       "memory.placement.optimizer_state": "nvme"}),
    # Data, packing, samples.
    Case("conversations, packed whole, samples by chat", CHATS | {"train.samples": {
        "prompts": ["What colour is a boat?"], "chat": True, "every": 2, "max_length": 60}, "train.validate_every": 2}, 1,
         ("evaluate out/run --data out/conversations.jsonl --threads 1 --json evaluated.json",)),
    Case("documents, lora on conversations", CHATS | {"data.packing": "documents", "adapter": {"type": "lora", "rank": 4}}, 1,
         ("export out/run adapters", "export out/run merged --merge")),
    Case("sources with weights, epochs, unshuffled", {"data": {"path": None, "shuffle": False, "sources": [
        {"path": "corpus.txt", "weight": 0.7}, {"path": "other.txt", "weight": 0.3}]}, "train.steps": None, "train.epochs": 0.05}),
    Case("held-out file, drawn samples", {"data.validation": "other.txt", "train.validate_every": 1, "train.samples": {
        "prompts": ["ab", "line"], "every": 1, "max_length": 8, "temperature": 0.8, "top_k": 20}}),
    Case("dropout of gpt2, documents", of("gpt2") | DOCUMENTS | {"train.dropout": True, "model.config": {"embd_pdrop": 0.1,
                                                                                                          "resid_pdrop": 0.1}}),
    # Several models.
    Case("sweep with selection", {"sweep": {"optimizer.lr": [1e-2, 1e-3], "train.seed": [1, 2]},
                                  "select": {"rung_steps": [1, 2], "keep": 0.5}, "train.validate_every": 2}),
    Case("list of models, tiny budget", {"memory.device": "512KiB", "models": [
        {"name": "one"},
        {"name": "two", "model": {"architecture": "gpt2", "config": CONFIGS["gpt2"]}, "train.steps": 4},
        {"name": "three", "adapter": {"type": "lora", "rank": 2}}]}),
    Case("sweep on two stages", ranks(pipeline=2) | {"sweep": {"optimizer.lr": [1e-2, 1e-3]},
                                                     "select": {"rung_steps": [1], "by": "training"}}, 2),
    Case("sweep on two data ranks and a drive", ranks(data=2) | NVME | {"sweep": {"train.seed": [1, 2]},
                                                                         "memory.placement.optimizer_state": "nvme"}, 2),
    # Ranks.
    Case("data 2, zero 0", ranks(data=2, zero_stage=0), 2),
    Case("data 2, zero 1, bf16 between ranks", ranks(data=2, zero_stage=1, reduce_dtype="bf16") | {"train.precision": "bf16"}, 2),
    Case("data 2, zero 2, drive", ranks(data=2, zero_stage=2) | NVME | {"memory.placement.optimizer_state": "nvme"}, 2),
    Case("data 4, zero 3, replicate 2", ranks(data=4, zero_stage=3, replicate=2) | {"train.batch": 8}, 4),
    Case("data 2, zero 3, tiny budget, samples", ranks(data=2) | {"memory.device": "256KiB", "train.validate_every": 2, "train.samples": {
        "prompts": ["ab"], "max_length": 8}}, 2),
    Case("tensor 2", ranks(tensor=2) | {"train.precision": "bf16"}, 2),
    Case("tensor 2, sequence, data 2, gemma2", ranks(tensor=2, sequence=True, data=2) | of("gemma2"), 4),
    Case("tensor 2, experts", ranks(tensor=2) | of("qwen3_moe"), 2),
    Case("context 2, documents", ranks(context=2) | DOCUMENTS, 2),
    Case("tensor 2, qlora, merged", ranks(tensor=2) | {"adapter": {"type": "lora", "rank": 4}, "memory.frozen_as": "nf4"}, 2, (MERGE,)),
    Case("pipeline 2, zero_bubble", ranks(pipeline=2, schedule="zero_bubble") | SINGLE, 2),
    Case("pipeline 2, interleaved", ranks(pipeline=2, schedule="interleaved", chunks=2) | SIX_LAYERS | SINGLE, 2),
    Case("pipeline 2, breadth_first, tiny budget",
         ranks(pipeline=2, schedule="breadth_first", chunks=2) | SIX_LAYERS | SINGLE | {"memory.device": "192KiB"}, 2),
    Case("pipeline 2, pipedream_2bw", ranks(pipeline=2, schedule="pipedream_2bw") | SINGLE, 2),
    Case("pipeline 2, pipedream", ranks(pipeline=2, schedule="pipedream") | {"train.microbatch": 1, "optimizer.clip_norm": 0}, 2),
    Case("pipeline 4, gpipe, own stages", ranks(pipeline=4, schedule="gpipe", stages=[2, 2, 2, 2]) | SIX_LAYERS | SINGLE, 4),
    Case("search on 4 ranks", {"plan.search": "auto", "train.microbatch": None}, 4),
    Case("3D on 8 ranks, drive", ranks(data=2, tensor=2, pipeline=2) | NVME | {"memory.placement": {
        "parameters": "nvme", "optimizer_state": "nvme"}}, 8),
    Case("context 2, data 4, replicate 4, on 8 ranks", ranks(data=4, context=2, replicate=4, zero_stage=2) | {"train.batch": 8}, 8),
    # Stopped and resumed.
    Case("resumed", {"train.steps": 2, "optimizer.schedule": {"type": "linear", "warmup": 1}}, 1,
         ("train run.yaml --set train.steps=4 --json resumed.json",)),
    Case("two stages, resumed on one rank", ranks(pipeline=2) | {"train.steps": 2}, 2,
         ("train run.yaml --set parallel.pipeline=1 --set train.steps=4 --json resumed.json",)),
]


def laid_over(run, settings):
    """A run file with other values at dotted keys. A map is laid over a map; None removes a key."""
    for key, value in settings.items():
        *sections, last = key.split(".")
        part = run
        for section in sections:
            part = part.setdefault(section, {})
        if value is None:
            part.pop(last, None)
        elif isinstance(value, dict) and isinstance(part.get(last), dict):
            laid_over(part[last], value)
        else:
            part[last] = value
    return run


def run_file_of(case):
    run = laid_over(laid_over({}, json.loads(json.dumps(BASE))), case.settings)
    if "architecture" in run["model"]:
        config = CONFIGS[run["model"]["architecture"]]
        run["model"]["config"] = config | run["model"].get("config", {})
    return run


def write_inputs(folder):
    """The files that run files of CASES name."""
    (folder / "drive").mkdir()
    (folder / "corpus.txt").write_text("".join(f"line {i * i} of a small text, {i % 7} words long\n" for i in range(400)))
    (folder / "other.txt").write_text("".join(f"{i} other words, {i * 7 % 11} of them\n" for i in range(100)))
    (folder / "parts").mkdir()
    for number in range(40):  # documents shorter than a sequence, and longer ones
        (folder / f"parts/{number}.txt").write_text(f"document {number} of a few words. " * (1 + number % 3))
    (folder / "machine.json").write_text(json.dumps({
        "flops_per_second": 1e12, "memory_bytes_per_second": 2e10, "h2d_bytes_per_second": 1e9, "d2h_bytes_per_second": 1e9,
        "nvme_read_bytes_per_second": 3e9, "nvme_write_bytes_per_second": 2e9, "cores_copy": True}))
    maker = pathlib.Path(__file__).resolve().parent.parent / "tests/docs/tiny_model.py"
    subprocess.run([sys.executable, maker], cwd=folder, check=True, capture_output=True)


def commands_of(case):
    """Words of each command, and its ranks."""
    yield ["plan", "run.yaml", "--ranks", str(case.ranks), "--program", "--json", "plan.json"], 1
    if case.ranks == 1:
        yield ["explain", "run.yaml", "--json", "explanation.json"], 1
    yield ["train", "run.yaml", "--json", "report.json"], case.ranks
    for words in case.then:
        yield shlex.split(words), 1
