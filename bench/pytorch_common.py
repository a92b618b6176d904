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


def make_optimizer(parameters):
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), fused=True)


def make_model(architecture, config, device="cpu"):
    """A causal language model of transformers with random weights, without dropout or a cache."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    common = {"use_cache": False, "bos_token_id": None, "eos_token_id": None, "attn_implementation": "sdpa"}
    with torch.device(device):
        if architecture == "gpt2":
            return GPT2LMHeadModel(GPT2Config(**config, **common, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
        return LlamaForCausalLM(LlamaConfig(**config, **common))
