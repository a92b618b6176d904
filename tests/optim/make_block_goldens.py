"""Writes block_goldens.json beside this script: matrices, and what bitsandbytes makes of them on a CPU.

    tests/parity/.venv/bin/python tests/optim/make_block_goldens.py

Numbers of fp32 are their bits; codes are bytes in hexadecimal digits.
"""
import json
import pathlib

import bitsandbytes.functional as bitsandbytes
import torch

NF4 = bitsandbytes.get_4bit_type("nf4", device="cpu")


def matrices():
    generator = torch.Generator().manual_seed(7)

    def normal(rows, columns, scale=1.0):
        return scale * torch.randn(rows, columns, generator=generator)

    midpoints = (NF4[:-1] + NF4[1:]) / 2
    between = torch.cat([midpoints, torch.nextafter(midpoints, torch.tensor(2.0)), torch.nextafter(midpoints, torch.tensor(-2.0)),
                         torch.tensor([1.0, 0.0, -0.0])])
    halves = torch.cat([(torch.arange(63) - 31.5), torch.tensor([127.0])])
    wide = normal(2, 96) * torch.exp2(torch.randint(-40, 40, (2, 96), generator=generator).float())
    with_zeros = normal(4, 64)
    with_zeros[1] = 0
    return {"normal": normal(5, 48), "small": normal(3, 70, 1e-30), "bf16": normal(3, 64).bfloat16().float(), "wide": wide,
            "with zeros": with_zeros, "between numbers of nf4": between.view(6, 8),
            "between numbers of int8": halves.view(1, 64), "one": normal(1, 1)}


def bits(values):
    return values.flatten().contiguous().view(torch.int32).tolist()


def digits(codes):
    return bytes(codes.flatten().contiguous().view(torch.uint8).tolist()).hex()


def main():
    goldens = []
    for name, matrix in matrices().items():
        # As one row: version 0.50.2 puts blocks elsewhere on a CPU where rows of 32, 96, … elements cut them.
        codes, state = bitsandbytes.quantize_4bit(matrix.flatten(), blocksize=64, quant_type="nf4")
        nf4 = {"codes": digits(codes), "scales": bits(state.absmax), "decoded": bits(bitsandbytes.dequantize_4bit(codes, state))}
        # A row of zeros has no reciprocal of its scale; on a GPU its codes are zeros.
        codes, scales, _ = bitsandbytes.int8_vectorwise_quant(matrix)
        codes[scales == 0] = 0
        decoded = bitsandbytes.int8_vectorwise_dequant(codes, scales)
        int8 = {"codes": digits(codes), "scales": bits(scales), "decoded": bits(decoded)}
        goldens.append({"name": name, "columns": matrix.shape[1], "values": bits(matrix), "nf4": nf4, "int8": int8})
    text = ",\n".join(json.dumps(golden) for golden in goldens)
    (pathlib.Path(__file__).parent / "block_goldens.json").write_text(f"[{text}]\n")


if __name__ == "__main__":
    main()
