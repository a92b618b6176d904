#!/usr/bin/env bash
# The first minutes of Strata on a GPU: whether it works, how fast it is, and the logs. Needs no Python, no compiler and no network.
#   bench/first.sh [--dry] [BUNDLE] [STEP...]
# Steps, all of them in this order if none is named, each within its limit:
#   smoke     copies, streams, cuBLASLt and cuDNN at all
#   loss_cpu, loss_gpu   a small Llama in fp32 on the CPU and on the GPU: the same last loss
#   b15       Llama 1.5B in the GPU's memory, with a trace
#   a8        six blocks of Llama 8B with 4096 tokens, in the GPU's memory
#   split     quarter with split masters, bf16 moments and no clipping
#   quarter   a8 with a quarter of the device memory
#   fp8       b15 in FP8
#   placement   runs with other placements, and from checkpoints: the same bits
#   parity    losses and gradients of PyTorch
#   agree     all other kernels' tests
#   kernels   every kernel
#   ceilings  matrix products, copies, host memory and disk
#   timed, again         b15 with products timed (device.product_table), and with the table that this leaves: the same bits
#   whole     a8 with split masters, bf16 moments and no clipping
#   torch     b15 in PyTorch, if it is there
# Programs: as bench/gpu.sh finds them.
# Results, in OUT, kept up to date after each step: first.md (also the end of the output), first.json, logs.tar.gz, b15.pftrace.gz.
# --dry needs no GPU: every step starts, and says what it could not do without one.
# Variables:
# - OUT: default bench/history/first.
# - SECONDS_LEFT: for all; default 555.
# - HOST_MEMORY: GiB to use; default 100, since a machine may be given more as it asks for it.
# - DISK: folder on the disk to measure; default: that of TMPDIR.
# - PYTHON, PYTORCH=no.
# shellcheck disable=SC2317  # steps are called by name
set -uo pipefail
# shellcheck source=bench/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

results_name=first
all_steps=(smoke loss_cpu loss_gpu b15 a8 split quarter fp8 placement parity agree kernels ceilings timed again whole torch)
# About twice what each took on an H200, at least 30; kernels, agree, whole and torch are estimated.
limits=([smoke]=40 [loss_cpu]=30 [loss_gpu]=30 [b15]=30 [a8]=60 [split]=55 [quarter]=50 [fp8]=35 [placement]=40
  [parity]=30 [agree]=90 [kernels]=90 [ceilings]=45 [timed]=30 [again]=30 [whole]=60 [torch]=60)
total_seconds=${SECONDS_LEFT:-555}

# --- steps ---------------------------------------------------------------------------------------------------------------

smoke_of_libraries='*CudaLibraries.AlignedProducts*:*CudaLibraries.AttentionAgrees*'
step_smoke() { run_tests tests smoke device_test "CudaDeviceTest.*:$smoke_of_libraries"; }
step_placement() { run_tests tests placement execute_test '*Cuda*:*cuda*:*Gpu*:*GPU*'; }
step_parity() { run_tests tests parity parity_test '*Bf16*cuda:*Fp32*llama_untied_cuda:*Fp32*qwen3_cuda:*Fp32*gpt2_cuda'; }
step_agree() { run_tests tests agree device_test "*/cuda-$smoke_of_libraries"; }
step_loss_cpu() { train loss_cpu; }
step_loss_gpu() { train loss_gpu; }
step_timed() { train timed; }
step_again() { train again; }
step_a8() { train a8; }
step_quarter() { train quarter; }
step_split() { train split; }
step_fp8() { train fp8; }
step_whole() { train whole; }
step_kernels() { run_kernels; }
step_ceilings() { run_ceilings "${DISK:-$work}" && read_kernels; }
step_b15() {
  local status
  train b15 --set "report.trace.path=$work/b15.pftrace" --set report.trace.steps=8
  status=$?
  keep_trace
  return "$status"
}
step_torch() {
  train_pytorch runs torch b15 llama-1.5b "$(shape_of config llama-1.5b)" --microbatch 4 --microbatches 2 --steps 3 --warmup 2 --no-compile
}

# If it is small enough to leave the machine.
keep_trace() {
  [ -s "$work/b15.pftrace" ] || return 0
  gzip -f "$work/b15.pftrace"
  [ "$(stat -c %s "$work/b15.pftrace.gz")" -gt 15000000 ] || cp "$work/b15.pftrace.gz" "$out/"
}

# --- the page ------------------------------------------------------------------------------------------------------------

check_all() {
  check "last loss, GPU beside CPU" "$(compare_losses "$(field runs loss_gpu loss)" "$(field runs loss_cpu loss)")"
  check "state hash, a8 in all and in a quarter of its memory" "$(compare_hashes "$(field runs a8 state_hash)" "$(field runs quarter state_hash)")"
  check "state hash, products timed and looked up" "$(compare_hashes "$(field runs timed state_hash)" "$(field runs again state_hash)")"
  check "offload ratio, quarter / a8" "$(ratio quarter a8)"
  check "offload ratio, split / a8" "$(ratio split a8)"
  check "offload ratio, split / whole (equal settings)" "$(ratio split whole)"
  check "products timed, again / b15" "$(ratio again b15)"
  check "fp8 / b15" "$(ratio fp8 b15)"
  check "b15 / torch" "$(ratio b15 torch)"
  check "fp8 multiplies in FP8" "$(multiplies_fp8)"
  check "device memory besides plan and scratch, b15" "$(besides_plan b15)"
}

check() { # NAME RESULT
  [ -z "$2" ] || record checks "$1" "result=$2"
}

compare_losses() { # A B
  { [ -n "$1" ] && [ -n "$2" ]; } || return 0
  awk 'BEGIN { difference = ARGV[1] - ARGV[2]; if (difference < 0) difference = -difference
               printf "%s: %s and %s, %.1e apart, 1e-4 allowed", difference <= 1e-4 * ARGV[2] ? "yes" : "no", ARGV[1], ARGV[2],
                      difference / ARGV[2] }' "$1" "$2"
}

compare_hashes() { # A B
  { [ -n "$1" ] && [ -n "$2" ]; } || return 0
  if [ "$1" = "$2" ]; then echo "yes: equal"; else echo "no: $1 and $2"; fi
}

ratio() { # RUN RUN: of their tokens per second
  quotient "$(field runs "$1" tokens_per_second)" "$(field runs "$2" tokens_per_second)"
}

multiplies_fp8() {
  [ -n "$(field runs fp8 measured)" ] || return 0
  if [[ $(field runs fp8 slow) == *"rounded and multiplied in bf16"* ]]; then echo "no: see its slow path"; else echo yes; fi
}

# What the driver counts besides: CUDA's context and the code of its libraries, for which the plan assumes a size.
besides_plan() { # RUN
  [ -n "$(field runs "$1" driver_bytes)" ] || return 0
  awk 'BEGIN { printf "%.0f MiB, %.0f MiB assumed", (ARGV[1] - ARGV[2] - ARGV[3]) / 1048576, ARGV[4] / 1048576 }' \
    "$(field runs "$1" driver_bytes)" "$(field runs "$1" device_bytes)" "$(field runs "$1" scratch_bytes)" "$(field runs "$1" library_bytes)"
}

page_body() {
  section Training "$(runs_table; slow_lines 4)"
  section Checks "$(lines_of checks result)"
  section Tests "$(tests_table; failed_tests 8)"
  section Ceilings "$(ceilings_line)"
  section "Kernels furthest from their ceilings" "$(worst_kernels 6)"
}

run_steps "$@"
