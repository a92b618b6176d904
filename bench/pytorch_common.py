"""What the PyTorch programs beside Strata's have in common: their data, models and optimizer."""
import torch


class Windows:
    """Random windows of a byte stream: inputs and targets, [microbatch, sequence]."""

    def __init__(self, file, sequence):
        self.sequence = sequence
        if file:
            self.tokens = torch.frombuffer(bytearray(open(file, "rb").read()), dtype=torch.uint8)
        else:
            self.tokens = torch.randint(256, (2**20,), dtype=torch.uint8)

    def next(self, count, device):
        starts = torch.randint(len(self.tokens) - self.sequence, (count,)).tolist()
        windows = torch.stack([self.tokens[start:start + self.sequence + 1] for start in starts]).long()
        return windows[:, :-1].contiguous().to(device), windows[:, 1:].contiguous().to(device)


class InOrder:
    """Windows of a file of 16-bit token ids, one after the other from its start; ranks take turns by microbatches."""

    def __init__(self, file, sequence, rank=0, ranks=1):
        self.tokens = torch.frombuffer(bytearray(open(file, "rb").read()), dtype=torch.uint16).long()
        self.sequence, self.turn, self.ranks = sequence, rank, ranks

    def next(self, count, device):
        starts = [(self.turn * count + index) * self.sequence for index in range(count)]
        self.turn += self.ranks
        windows = torch.stack([self.tokens[start:start + self.sequence + 1] for start in starts])
        return windows[:, :-1].contiguous().to(device), windows[:, 1:].contiguous().to(device)


def parameter_groups(parameters):
    return [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]


def make_optimizer(parameters):
    return torch.optim.AdamW(parameter_groups(parameters), lr=3e-4, betas=(0.9, 0.95), fused=True)


def deepspeed_config(microbatch, microbatches, bf16, zero, own_optimizer):
    """DeepSpeed's settings; `zero` are those of zero_optimization. own_optimizer: DeepSpeed makes its AdamW, on the CPU where state is there."""
    config = {
        "train_micro_batch_size_per_gpu": microbatch,
        "gradient_accumulation_steps": microbatches,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": bf16},
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 10**9,
    }
    if own_optimizer:
        config["optimizer"] = {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}}
    return config


def load_model(folder):
    """A causal language model of a Hugging Face folder, in fp32."""
    from transformers import AutoModelForCausalLM
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa", use_cache=False)


def make_model(architecture, config, device="cpu"):
    """A causal language model of transformers with random weights, without dropout or a cache."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    common = {"use_cache": False, "bos_token_id": None, "eos_token_id": None, "attn_implementation": "sdpa"}
    with torch.device(device):
        if architecture == "gpt2":
            return GPT2LMHeadModel(GPT2Config(**config, **common, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
        return LlamaForCausalLM(LlamaConfig(**config, **common))
