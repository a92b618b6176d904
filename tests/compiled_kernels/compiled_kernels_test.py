#!/usr/bin/env python3
"""What the compilers make of the CUDA kernels, without a GPU: compiled_kernels_test.py PTXAS FOLDER LIBRARY [--table] [SOURCE...]

FOLDER has the PTX that the build has kept. ptxas assembles the newest of a source that an architecture takes, for each of ARCHITECTURES,
as a GPU's driver does. Every kernel is held against KERNELS.
No kernel spills or has a stack frame, enough threads fit a multiprocessor, and a run of neighbouring elements is one access. Every kernel that the host's code in LIBRARY starts has PTX: nvcc compiles templates twice, for the host
and for the GPU, and the two can come to different types. SOURCE: norm for norm.cu, ...; none: all but LONG, which take minutes, and without the kernels of float16,
which are those of bfloat16 with other conversions. Exit status 1 and one sentence per finding, 77 if there is nothing to look at."""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ARCHITECTURES = (80, 90, 100, 120)
REGISTERS = 65536  # of a multiprocessor, on each of them
LONG = {"attention", "grouped_product"}

# threads: the number that fits a multiprocessor, at least. stored, loaded: instructions that move less than 8 bytes, of a kernel that moves
# runs: ends of rows, statistics, indices, coefficients. A run that is taken apart is four more at least.
# frame: bytes of the stack, in kernels that stand in for a library where it is missing.
Limits = collections.namedtuple("Limits", "threads stored loaded frame", defaults=(0, 0, 0))
KERNELS = {
    "add_bias": Limits(1536),
    "average_kernel": Limits(1536),
    "balance_kernel": Limits(1536),
    "blend_kernel": Limits(1536),
    "block_squares_kernel": Limits(1024, loaded=32),  # the end, element by element
    "cached_attention_kernel": Limits(1536, stored=5, loaded=11),  # a column of two values at a time, and of what is read and written once
    "coded_momentum_kernel": Limits(2048),
    "coded_update_kernel": Limits(2048),
    "column_dots_kernel": Limits(1024, stored=1, loaded=82),  # as below, of two operands
    "column_sums_kernel": Limits(1280, stored=1, loaded=42),  # each column's sum and its factor; the ends of five rows at a time
    "combine_backward_kernel": Limits(1024, stored=1, loaded=2),
    "combine_kernel": Limits(1024, loaded=21),  # the places and weights of seven rows at a time
    "copy_rows_kernel": Limits(1536, loaded=1),
    "count_digits_kernel": Limits(1536),
    "count_rows_kernel": Limits(1536),
    "cross_entropy_kernel": Limits(1536, stored=4, loaded=6),  # the loss and a row's ends, with a target and without
    "decode": Limits(1536, loaded=1),  # the scale
    "decode_blocks": Limits(1024, loaded=24),  # codes, their scales, and numbers of nf4
    "direction_limit_kernel": Limits(1536),
    "drop_elements": Limits(1280, loaded=1),  # a row's key
    "elementwise_kernel": Limits(1280, stored=3, loaded=3),  # one element of each operand at the end of a row
    "embedding_kernel": Limits(1536, loaded=2),  # a token and its place
    "encode": Limits(1536, loaded=1),  # the scale
    "encode_transposed": Limits(1024, loaded=1),
    "factor_step_kernel": Limits(1536),
    "find_largest": Limits(1536, stored=1, loaded=10),  # an operand whose rows are not aligned, beside one whose rows are
    "find_scales": Limits(1536),
    "group_rows_kernel": Limits(1536),
    "head_norm_backward_kernel": Limits(512, stored=1, loaded=2),  # a column's sum; a head's deviation, a token's place
    "head_norm_kernel": Limits(1280, stored=1, loaded=1),  # a head's deviation; a token's place
    "list_documents_kernel": Limits(1536),
    "magnitude_factors": Limits(1536),
    "momentum_kernel": Limits(1536, stored=2, loaded=9),  # coefficients, and one element of each array at the end
    "move_entries_kernel": Limits(1536),
    "move_rows_kernel": Limits(1536, loaded=2),  # where a slot's document is, and its length
    "move_statistics_kernel": Limits(1536),
    "norm_backward_kernel": Limits(1024, loaded=5),  # a row's statistics, at two places
    "norm_kernel": Limits(1024, stored=2, loaded=1),
    "parts_gradient_kernel": Limits(1536, stored=2, loaded=24),  # the parts' statistics
    "parts_loss_kernel": Limits(1024),
    "positions_gradient_kernel": Limits(512),
    "rope_kernel": Limits(1280, loaded=1),  # a token's place
    "round_runs": Limits(1536, loaded=2),  # the scale
    "route_backward_kernel": Limits(1536),
    "route_kernel": Limits(1536),
    "row_deviation_kernel": Limits(1536),
    "row_dots_kernel": Limits(1280, stored=1),
    "row_step_kernel": Limits(1536),
    "scale_columns": Limits(1536, loaded=16),  # the factors
    "softmax_part_kernel": Limits(1536, stored=4, loaded=3),
    "sum_parts": Limits(1536),
    "sum_rows_kernel": Limits(1536),
    "table_gradient_kernel": Limits(512, loaded=6),  # entries of rows
    "tree_sum_kernel": Limits(1536),
    "update_kernel": Limits(1280, stored=5, loaded=27),  # coefficients, and one element of each array at the end
    "update_kernel<AdemamixCoefficients>": Limits(1024, stored=6, loaded=36),
    # cuDNN and cuBLASLt take their place where they are. What attention writes is in fp32 or not: stores of both are there.
    "attention_kernel": Limits(256, stored=136, loaded=162, frame=40),
    "grouped_gradient_kernel": Limits(1024, frame=8),
    "grouped_product_kernel": Limits(1024),
    "key_value_gradient_kernel": Limits(256, stored=256, loaded=229, frame=32),
    "out_projection_kernel": Limits(1024),
    "query_gradient_kernel": Limits(256, stored=256, loaded=256, frame=48),
}

Resources = collections.namedtuple("Resources", "registers frame spilled")
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


class Kernel:
    """A kernel as PTX: its threads, and how many instructions move how many bytes of global memory."""

    def __init__(self, symbol):
        self.symbol = symbol
        self.threads = None
        self.accesses = collections.Counter()  # ("ld" or "st", bytes)

    def widest(self):
        return max((size for _, size in self.accesses), default=0)

    def pieces(self, kind):
        return sum(count for (of, size), count in self.accesses.items() if of == kind and size < 8)


def kernels_of(ptx):
    kernels, kernel = [], None
    for line in ptx.splitlines():
        if entry := re.match(r"(?:\.visible |\.weak )?\.entry (\w+)\(", line):
            kernel = Kernel(entry[1])
            kernels.append(kernel)
        elif threads := re.match(r"\.maxntid (\d+)", line):
            kernel.threads = int(threads[1])
        elif access := re.match(r"\s*(?:@!?%p\d+\s+)?(ld|st)\.global((?:\.\w+)*)\.[a-z](\d+)\s", line):
            count = int(vector[1]) if (vector := re.search(r"\.v([24])", access[2])) else 1
            kernel.accesses[access[1], count * BYTES[access[3]]] += 1
    return kernels


def kept_in(folder):
    """The PTX of each source, by the oldest architecture that it can be assembled for."""
    kept = collections.defaultdict(dict)
    for path in folder.glob("*.ptx"):
        ptx = path.read_text()
        kept[path.name.split(".")[0]][int(re.search(r"^\.target sm_(\d+)", ptx, re.MULTILINE)[1])] = ptx
    return kept


def without_float16(ptx):
    return re.sub(r"^(?:\.visible |\.weak )?\.entry \w*7float16\w*\([\s\S]*?^}\n", "", ptx, flags=re.MULTILINE)


def resources_of(ptxas, ptx, architecture):
    """Of each kernel, by its symbol."""
    command = [ptxas, "-v", f"-arch=sm_{architecture}", "-", "-o", os.devnull]
    result = subprocess.run(command, input=ptx, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"ptxas for sm_{architecture}: {result.stderr}")
    found = {}
    for entry in re.split(r"Compiling entry function", result.stderr)[1:]:
        symbol = re.match(r" '(\w+)'", entry)[1]
        stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", entry)
        registers = re.search(r"Used (\d+) registers", entry)
        found[symbol] = Resources(int(registers[1]), int(stack[1]), int(stack[2]) + int(stack[3]))
    return found


def readable(symbols):
    lines = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout.splitlines()
    short = [re.sub(r"^void |strata::|\(anonymous namespace\)::", "", line) for line in lines]
    return {symbol: re.sub(r"\((?!\w+\)\d).*$", "", re.sub(r"\(\w+\)(?=\d)", "", line)) for symbol, line in zip(symbols, short)}


def started_without_ptx(library, kept):
    """One sentence for each kernel that the host's code names and no GPU's code has."""
    symbols = subprocess.run(["nm", "--demangle", library], capture_output=True, text=True, check=True).stdout
    started = {line.split(maxsplit=2)[2] for line in symbols.splitlines() if re.match(r"[0-9a-f]+ [tTW] ", line)}
    mangled = "\n".join({kernel.symbol for versions in kept.values() for ptx in versions.values() for kernel in kernels_of(ptx)})
    compiled = set(subprocess.run(["c++filt"], input=mangled, capture_output=True, text=True, check=True).stdout.splitlines())
    kernel = re.compile(r"(?:void )?strata::\(anonymous namespace\)::(\w+)(?:<.*>)?\(.*\)$")
    return [f"{name} is started and not compiled for the GPU" for name in sorted(started - compiled)
            if (match := kernel.match(name)) and match[1] in KERNELS]


def resident_threads(kernel, registers):
    return REGISTERS // (-(-registers // 8) * 8 * kernel.threads) * kernel.threads


def limits_of(name):
    """Those of the kernel's own, or of its instances with that type: "update_kernel<AdemamixCoefficients>"."""
    base = name.split("<")[0]
    of_type = [limits for key, limits in KERNELS.items() if key.startswith(f"{base}<") and key[len(base) + 1:-1] in name]
    return of_type[0] if of_type else KERNELS.get(base)


def findings(kernel, name, resources):
    limits = limits_of(name)
    if limits is None:
        return [f"{name} is new: say in KERNELS what it may use"]
    found = []
    if kernel.threads is None:
        return [f"{name} has no __launch_bounds__"]
    for architecture, used in resources.items():
        on = f"{name} on sm_{architecture}"
        if used.frame > limits.frame or (used.spilled and not limits.frame):
            found.append(f"{on} has a stack frame of {used.frame} bytes and spills {used.spilled}")
        if (threads := resident_threads(kernel, used.registers)) < limits.threads:
            found.append(f"{on} takes {used.registers} registers: {threads} threads fit a multiprocessor, not {limits.threads}")
    widest = kernel.widest()
    width = int(first[1]) if (first := re.search(r"<(\d+)[,>]", name)) else 1
    if width > 1 and widest < 8:
        found.append(f"{name} moves {widest} bytes at a time")
    if width > 1 or widest > 8:
        for kind, most, word in (("st", limits.stored, "stores"), ("ld", limits.loaded, "loads")):
            if kernel.pieces(kind) > most:
                found.append(f"{name} {word} pieces of less than 8 bytes at {kernel.pieces(kind)} places, not {most}: runs are taken apart")
    return found


def table_row(kernel, name, resources):
    moved = [", ".join(f"{count} × {size}" for (of, size), count in sorted(kernel.accesses.items(), key=lambda x: -x[0][1]) if of == kind)
             for kind in ("ld", "st")]
    registers = " / ".join(str(used.registers) for used in resources.values())
    frames = " / ".join(str(used.frame) for used in resources.values())
    return f"| `{name}` | {moved[0]} | {moved[1]} | {registers} | {frames} |"


# Invariant of devices (compiled_kernels): Kernels compile as they are written. On sm_80, sm_90, sm_100 and
# sm_120 no kernel spills registers or has a stack frame. The declared number of threads fits a
# multiprocessor, and neighbouring elements are one access. Kernels that stand in for cuDNN and cuBLASLt are
# excluded.
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ptxas")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--table", action="store_true", help="print a row of Markdown per kernel")
    parser.add_argument("source", nargs="*")
    arguments = parser.parse_intermixed_args()
    if not os.access(arguments.ptxas, os.X_OK) or not arguments.folder.is_dir():
        print("Skipped: no kernels have been compiled, since this build is without CUDA")
        return 77
    kept = kept_in(arguments.folder)
    sources = arguments.source or sorted(set(kept) - LONG)
    if not sources or not set(sources) <= set(kept):
        print(f"{arguments.folder} lacks the PTX of {', '.join(set(sources) - set(kept)) or 'any source'}")
        return 1

    # A build for some newer GPU alone has nothing for older ones.
    architectures = [architecture for architecture in ARCHITECTURES if architecture >= max(min(kept[source]) for source in sources)]

    def ptx_of(source, architecture):
        ptx = kept[source][max(of for of in kept[source] if of <= architecture)]
        return ptx if arguments.source else without_float16(ptx)

    jobs = [(source, architecture) for source in sources for architecture in architectures]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        assembled = dict(zip(jobs, pool.map(lambda job: resources_of(arguments.ptxas, ptx_of(*job), job[1]), jobs)))
    found, count = started_without_ptx(arguments.library, kept), 0
    for source in sources:
        kernels = kernels_of(ptx_of(source, architectures[-1]))
        names = readable([kernel.symbol for kernel in kernels])
        for kernel in kernels:
            count += 1
            resources = {architecture: assembled[source, architecture][kernel.symbol] for architecture in architectures}
            found += findings(kernel, names[kernel.symbol], resources)
            if arguments.table:
                print(table_row(kernel, names[kernel.symbol], resources))
    for sentence in found:
        print(sentence)
    print(f"{count} kernels of {len(sources)} sources on {', '.join(f'sm_{architecture}' for architecture in architectures)}")
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
