#!/usr/bin/env bash
# Tests and measures Strata on a machine with an NVIDIA GPU; needs no Python, no compiler and no network in an unpacked bundle.
#   bench/gpu.sh [--missing | --dry] [BUNDLE] [PART...]
#   bench/gpu.sh first | second [ARGUMENT...]     the first ten minutes, which bench/first.sh and bench/second.sh describe
# Parts, all of them in this order where none is named, each at most 8 minutes:
#   tests      the test programs that have CUDA tests
#   sanitizer  compute-sanitizer on the CUDA kernels' tests: memcheck, then racecheck
#   ranks      NCCL's ranks against the plain collectives, and training on two: processes that share the GPU, which NCCL allows
#              where each says that it is on another host (NCCL_HOSTID); by the bundle's mpirun, or the system's
#   ceilings   what the machine can do: matrix products, copies, host memory, disk
#   kernels    every kernel, held against the ceilings
#   train      GPT-2 124M and Llama 1.5B and 3B in the GPU's memory, beside PyTorch
#   choices    Llama 1.5B as it is, with products timed (device.product_table), in FP8 and with both; 8 blocks of Llama 8B in FP8 with
#              a budget of 12 GiB, whose parameters travel in bf16 and packed
#   offload    Llama 8B with device budgets of 80, 48, 24 and 12 GiB, beside PyTorch's FSDP2 and DeepSpeed's
#              ZeRO stage 3 with CPU offload
#   largest    the largest Llama with 8B's blocks that trains
#   cpu        the other cases of the programs of the part tests, which this machine's processor decides
#
# Programs: those of BUNDLE if one is named; of the bundle that this script lies in; of build/, built where it is missing.
# Results, with those of earlier parts of the same day: bench/history/DATE-GPU.json and .md, kept up to date while a part runs, and
# the last 2 MiB of each log in DATE-GPU-logs-TIME.tar.gz.
# --missing leaves out what these have. --dry needs no GPU: every part starts, and says what it could not do without one; its results go
# nowhere.
# Variables: RESULTS (folder), PYTHON, PYTORCH=no (leaves PyTorch out), PART_SECONDS,
#   HOST_MEMORY   GiB to use; default: most of what is free when a part begins, since a machine may be given more as it asks for it
#   DISK          folder on the disk to measure; default: that of TMPDIR
# shellcheck disable=SC2317  # parts are called by name
set -uo pipefail
# shellcheck source=bench/gpu_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/gpu_common.sh"

part_seconds=${PART_SECONDS:-480}
all_parts=(tests sanitizer ranks ceilings kernels train choices offload largest cpu)
test_programs=(device_test execute_test parity_test)
cuda_tests='*Cuda*:*cuda*:*Gpu*:*GPU*'
mpirun=mpirun launcher_environment=()
results=
failed=0  # 1: something failed

# --- arguments, programs, machine ----------------------------------------------------------------------------------------

parse_arguments() {
  missing_only=0
  parts=()
  local argument
  for argument; do
    case $argument in
      --missing) missing_only=1 ;;
      --dry) dry=1 ;;
      *.tar) unpack_bundle "$argument" ;;
      *)
        [[ " ${all_parts[*]} " == *" $argument "* ]] || give_up "no part $argument; parts: ${all_parts[*]}"
        parts+=("$argument")
        ;;
    esac
  done
  [ ${#parts[@]} -gt 0 ] || parts=("${all_parts[@]}")
}

build_programs() {
  bash -ec 'source "$1"; build all' build "$root/cmake/setup.sh" || give_up "the build failed"
}

# Of a bundle: Open MPI's and PMIx's folders, which they have built in; ranks start on this machine alone, which may have no ssh.
use_launcher_of_bundle() {
  local folder=$source_folder
  [ -x "$folder/launcher/mpirun" ] || return 0
  mpirun=$folder/launcher/mpirun
  launcher_environment=(OMPI_MCA_plm=isolated OPAL_PREFIX="$folder" OPAL_BINDIR="$folder/launcher" OPAL_LIBDIR="$folder/lib"
    OPAL_PKGLIBDIR="$folder/lib/openmpi" OPAL_PKGDATADIR="$folder/share/openmpi" PMIX_PREFIX="$folder"
    PMIX_PKGLIBDIR="$folder/lib/pmix" LD_LIBRARY_PATH="$folder/lib:${LD_LIBRARY_PATH:-}")
}

require_gpu() {
  ask_gpu 20 || [ "$dry" = 1 ] || give_up "nvidia-smi finds no NVIDIA GPU with a driver here, so there is nothing to measure."
  # A GPU of 80 GB if a dry run has none.
  gpu=${gpu:-no GPU} gpu_mib=${gpu_mib:-81559}
}

require_libraries() {
  [ -z "$absent_libraries" ] ||
    give_up "shared libraries are missing: ${absent_libraries}(CUDA's come with the CUDA toolkit or with PyTorch)"
}

# GiB that may be used now.
host_memory() {
  echo "${HOST_MEMORY:-$(awk '/^MemAvailable:/ { print int($2 * 0.92 / 1048576) }' /proc/meminfo)}"
}

# --- running and recording -----------------------------------------------------------------------------------------------

# skipped PART NAME: whether it is measured already, or there is no time for it
skipped() {
  if [ "$missing_only" = 1 ] && [ -n "$(field "$1" "$2" measured)" ]; then
    return 0
  fi
  [ "$(seconds_left)" -le 5 ] || return 1
  [ -n "$(field "$1" "$2" measured)" ] || record "$1" "$2" "note=not run: the part's time was over"
}

# --- parts ---------------------------------------------------------------------------------------------------------------

# run_test_programs PART FILTER: each has its part of the time that is left
run_test_programs() {
  local part=$1 program left=${#test_programs[@]} part_deadline=$deadline
  for program in "${test_programs[@]}"; do
    deadline=$((SECONDS + (part_deadline - SECONDS) / left)) left=$((left - 1))
    skipped "$part" "$program" || run_tests "$part" "$program" "$program" "$2" || {
      [ $? -eq 124 ] || failed=1
      grep -E '^\[  FAILED|Failure|rror' "$(log_of "$part" "$program")" | sort -u | head -n 40
    }
  done
  deadline=$part_deadline
}
part_tests() { run_test_programs tests "$cuda_tests"; }
part_cpu() { run_test_programs cpu "*-$cuda_tests"; }

part_sanitizer() {
  local sanitizer tool log status start summary part_deadline=$deadline
  sanitizer=$(PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer command -v compute-sanitizer)
  for tool in memcheck racecheck; do
    if [ -z "$sanitizer" ] || [ ! -x "$test_folder/device_test" ]; then
      record sanitizer "$tool" "note=not run: compute-sanitizer or device_test is not here"
      continue
    fi
    ! skipped sanitizer "$tool" || continue
    [ "$tool" = racecheck ] || deadline=$((SECONDS + (part_deadline - SECONDS) / 2))  # each has half of the time
    log=$(log_of sanitizer "$tool") start=$SECONDS
    # Refused allocations are tested on purpose, so errors that the driver returns are not counted.
    ours limited "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 9 "$test_folder/device_test" \
      --gtest_filter="$cuda_tests" >"$log" 2>&1
    status=$?
    summary=$(sed -n 's/^=* *\(.* SUMMARY: .*\)/\1/p' "$log" | tail -n 1)
    record sanitizer "$tool" "tests=$(grep -c '^\[       OK' "$log")" "summary=$summary" "seconds=$((SECONDS - start))" \
      "note=$([ "$status" -eq 0 ] || why_failed "$status" "$log")" measured=yes
    [ "$status" -eq 0 ] || [ "$status" -eq 124 ] || failed=1
    deadline=$part_deadline
  done
}

share_gpu() { # RANKS
  # As hosts of their own they would look for a network of NVLink or of cards between them, and there is none.
  # shellcheck disable=SC2016  # the ranks' shells know their numbers
  launch=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 NCCL_MNNVL_ENABLE=0 NCCL_SOCKET_IFNAME=lo
    "${launcher_environment[@]}" "$mpirun" -n "$1" --oversubscribe --bind-to none
    bash -c 'NCCL_HOSTID=rank$OMPI_COMM_WORLD_RANK exec "$0" "$@"')
}

part_ranks() {
  local program=$test_folder/collectives_nccl_test
  if [ ! -x "$program" ] || ! command -v "$mpirun" >/dev/null; then
    record ranks NCCL "note=not run: $([ -x "$program" ] && echo "no mpirun" || echo "no collectives_nccl_test") here"
    return
  fi
  if ! start_ranks; then
    failed=1
    return
  fi
  test_ranks "$program"
  train_ranks
}

# Whether the launcher works here, before a GPU is asked for.
start_ranks() {
  local log status
  log=$(log_of ranks launcher)
  share_gpu 2
  limited "${launch[@]}" true >"$log" 2>&1
  status=$?
  launch=()
  record ranks "launcher, ranks: 2" "note=$([ "$status" -eq 0 ] || why_failed "$status" "$log")" measured=yes
  return "$status"
}

test_ranks() { # PROGRAM
  local count name log status start
  for count in 2 3 4; do
    name="collectives, ranks: $count" log=$(log_of ranks "$name") start=$SECONDS
    ! skipped ranks "$name" || continue
    share_gpu "$count"
    # Failures are left to the program that waits for the stream's events. Groups that work at once want streams of their own.
    ours limited "${launch[@]}" "$1" 60 --gtest_color=no --gtest_filter='-*Failure.*:*AtOnce*:*Beyond*' >"$log" 2>&1
    status=$?
    record ranks "$name" "passed=$(grep -c '^\[ *OK' "$log")" "seconds=$((SECONDS - start))" \
      "note=$([ "$status" -eq 0 ] || why_failed "$status" "$log")" measured=yes
    [ "$status" -eq 0 ] || [ "$status" -eq 124 ] || failed=1
  done
}

# Two ranks must reach one rank's last loss within 1e-5; NCCL's sockets set their pace.
train_ranks() {
  local count stage name alone="" loss
  while read -r count stage; do
    name="training, stage $stage, ranks: $count"
    launch=()
    [ "$count" -eq 1 ] || share_gpu "$count"
    skipped ranks "$name" ||
      train_strata ranks "$name" llama-sparse --set device.kind=cuda --set memory.device=8GiB --set "parallel.zero_stage=$stage"
    loss=$(field ranks "$name" loss)
    [ "$count" -gt 1 ] || alone=$loss
    [ -n "$loss" ] || [ "$(seconds_left)" -gt 5 ] || continue  # the time was over
    [ -n "$loss" ] || [ "$dry" = 0 ] || continue
    awk 'BEGIN { exit !(ARGV[1] ~ /^[0-9]/ && ARGV[2] ~ /^[0-9]/ && (ARGV[1] - ARGV[2]) ^ 2 <= (1e-5 * ARGV[2]) ^ 2) }' \
      "$loss" "$alone" && continue
    say "$name: the last loss is '$loss', that of one rank '$alone'"
    failed=1
  done <<<"1 3
2 0
2 1
2 2
2 3"
  launch=()
}

part_ceilings() {
  local log
  log=$(log_of ceilings bench_update)
  run_ceilings "${DISK:-$work}"
  ours limited "$bench_folder/bench_update" --benchmark_format=json $((256 << 20)) "$cores" >"$log" 2>"$log.errors"
  record ceilings adamw_over_stream "ratio=$(flatten <"$log" | of_path benchmarks.0.rate_of_stream)" measured=yes \
    "what=bench_update: the CPU's AdamW against a bare stream of the same bytes, $cores threads"
}

part_kernels() { run_kernels; }

# refuse_slow_paths PART NAME PATTERN: fails if the run met a slow path that matches
refuse_slow_paths() {
  grep -q "$3" <<<"$(field "$1" "$2" slow)" || return 0
  say "$2 met a slow path: $(field "$1" "$2" slow)"
  failed=1
}

# train_pytorch with the largest of the microbatches that fits: train_resident NAME RUN_FILE BATCH MICROBATCH...
train_resident() {
  local name=$1 run=$2 batch=$3 microbatch
  shift 3
  for microbatch; do
    ! skipped train "$name, PyTorch" || return 0
    train_pytorch train "$name, PyTorch" "$name" "$run" "$(shape_of config "$run")" --microbatch "$microbatch" \
      --microbatches $((batch / microbatch)) --steps 6 --warmup 3
    [ -n "$pytorch" ] || return 0
    [[ "$(field train "$name, PyTorch" note)" == *emory* ]] || return 0
  done
}

part_train() {
  local run batch microbatches
  while read -r run batch microbatches; do
    skipped train "$run" || train_strata train "$run" "$run"
    refuse_slow_paths train "$run" .
    # shellcheck disable=SC2086  # a word per microbatch
    train_resident "$run" "$run" "$batch" $microbatches
  done <<<"gpt2-124m 32 16 8
llama-1.5b 8 4 2
llama-3b 8 4 2 1"
}

packed_runs() {
  local format settings
  settings="--set train.precision=fp8 --set memory.device=12GiB --set memory.host=${host_gib}GiB --set train.batch=8"
  for format in precision fp8; do
    echo "8 blocks of 8B in 12 GiB, fp8, parameters as $format|llama-8b|$settings --set model.config.num_hidden_layers=8" \
      "--set memory.trained_as=$format"
  done
}

# The first run with a table times products, and the second must have its bits.
part_choices() {
  local name settings run first again table=$work/products
  while IFS='|' read -r name run settings; do
    # shellcheck disable=SC2086  # the settings are words
    skipped choices "$name" || train_strata choices "$name" "$run" $settings
    if [[ $name == *fp8* ]]; then
      refuse_slow_paths choices "$name" "rounded and multiplied in bf16"
    else
      refuse_slow_paths choices "$name" .
    fi
  done <<<"1.5B, products as proposed|llama-1.5b|
1.5B, products timed|llama-1.5b|--set device.product_table=$table
1.5B, products timed before|llama-1.5b|--set device.product_table=$table
1.5B, fp8|llama-1.5b|--set train.precision=fp8
1.5B, fp8, products timed|llama-1.5b|--set train.precision=fp8 --set device.product_table=$table
$(packed_runs)"
  first=$(field choices "1.5B, products timed" state_hash) again=$(field choices "1.5B, products timed before" state_hash)
  [ -n "$again" ] && [ "$first" != "$again" ] || return 0
  say "1.5B has other bits when its products are looked up than when they are timed: $again, and $first"
  failed=1
}

has_deepspeed() { timeout 20 "$python" -c 'import importlib.metadata as m; m.version("deepspeed")' 2>/dev/null; }

# Blocks of the 8B shape that the host can hold, with the smallest device budget and for PyTorch too.
blocks_that_fit() {
  local blocks parameters
  for blocks in 32 30 28 26 24 20 16 12 8 4; do
    parameters=$(plan llama-8b --set memory.device=12GiB --set "memory.host=${host_gib}GiB" \
      --set "model.config.num_hidden_layers=$blocks" | flatten | of_path parameters)
    [ -n "$parameters" ] || continue
    # FSDP2 keeps 16 bytes per parameter on the host, with pinned memory in powers of two.
    [ -z "$pytorch" ] || awk "BEGIN { exit !($parameters * 17.5 <= $host_gib * 2^30) }" || continue
    echo "$blocks"
    return
  done
}

part_offload() {
  local blocks budget tokens device config
  blocks=$(blocks_that_fit)
  [ -n "$blocks" ] || { record offload llama-8b "note=not run: ${host_gib} GiB of host memory hold not even 4 blocks" && return; }
  local name="8B"
  [ "$blocks" -eq 32 ] || name="8B with $blocks of 32 blocks"
  config=$(shape_of config llama-8b | sed "s/\"num_hidden_layers\": [0-9]*/\"num_hidden_layers\": $blocks/")
  # The budget and the batch that matter most first, in case that the time is not enough.
  while read -r budget tokens; do
    if [[ $budget == *-offload ]]; then
      ! skipped offload "$name, ${tokens}k tokens, $budget" || continue
      if [ "$budget" = zero3-offload ] && ! has_deepspeed; then
        record offload "$name, ${tokens}k tokens, $budget" "note=not run: $python has no DeepSpeed"
        continue
      fi
      train_pytorch offload "$name, ${tokens}k tokens, $budget" "$name, ${tokens}k tokens, 24 GiB" llama-8b "$config" \
        --mode "$budget" --microbatch 8 --microbatches $((tokens / 16)) --steps 3 --warmup 2
      continue
    fi
    ! skipped offload "$name, ${tokens}k tokens, $budget GiB" || continue
    device=${budget}GiB
    [ "$budget" -lt $((gpu_gib - 2)) ] || device=unlimited  # a card of 80 GB has less than 80 GiB
    train_strata offload "$name, ${tokens}k tokens, $budget GiB" llama-8b --set "memory.device=$device" \
      --set "memory.host=${host_gib}GiB" --set "model.config.num_hidden_layers=$blocks" --set "train.batch=$((tokens / 2))"
  done <<<"24 32
fsdp2-offload 32
zero3-offload 32
12 32
48 32
80 32
24 16
fsdp2-offload 16
24 64
fsdp2-offload 64
12 16
12 64
48 16
80 16
48 64
80 64"
}

# Settings of a run with N blocks of the 8B shape, as short as a step can be.
large_run() {
  echo --set "memory.device=$((gpu_gib - 4))GiB" --set "memory.host=${host_gib}GiB" --set train.microbatch=1 --set train.batch=2 \
    --set train.steps=2 --set train.recompute=full --set "model.config.num_hidden_layers=$1"
}
# shellcheck disable=SC2046  # the settings are words
large_plan() { plan llama-8b $(large_run "$1"); }

# shellcheck disable=SC2046
part_largest() {
  local low=0 high=1 middle name
  while large_plan "$high" >/dev/null; do low=$high high=$((2 * high)); done
  while [ $((high - low)) -gt 1 ]; do
    middle=$(((low + high) / 2))
    if large_plan "$middle" >/dev/null; then low=$middle; else high=$middle; fi
  done
  while [ "$low" -gt 0 ] && [ "$(seconds_left)" -gt 60 ]; do
    name="$(quotient "$(large_plan "$low" | flatten | of_path parameters)" 1e9) billion parameters: $low blocks of Llama 8B"
    train_strata largest "$name" llama-8b $(large_run "$low")
    [ -z "$(field largest "$name" measured)" ] && [ "$dry" = 0 ] || return 0
    low=$((low * 95 / 100))
  done
}

# --- results -------------------------------------------------------------------------------------------------------------

training_columns=('run|name' 'program|program' 'tokens/s|tokens_per_second|%.0f' 's/step|step_seconds|%.3f'
  'MFU|mfu|%.3f' 'HFU|hfu|%.3f' 'model FLOPs / peak|of_peak|%.3f'
  'model FLOPs / GEMM ceiling|of_gemm|%.3f' 'bound s|bound_seconds|%.3f' 'by|bound_by' 'bound / step|bound_over_step|%.3f'
  'device GiB|device_bytes|%.2f|1073741824' 'host GiB|host_bytes|%.2f|1073741824' 'strata / this|strata_over_this|%.2f'
  'plan exact|exact' 'loss|loss|%.4f' 'state hash|state_hash' 'slow paths|slow')

# How a part's figures were taken.
part_text() {
  case $1 in
    kernels) say "At the shapes of a Llama 8B step with 16384 tokens. Of the ceiling: FLOP/s over gemm_bf16, bytes/s over" \
      "device_copy; medians." ;;
    train) say "Sequence 2048, random weights, medians of steps. MFU and HFU are against the matrix-product rate that strata" \
      "measures at its start, PyTorch's too. PyTorch: fp32 weights, bf16 autocast, SDPA, torch.compile of the whole model," \
      "fused AdamW, 16 bytes of state per parameter, the largest microbatch that fits." ;;
    ranks) say "Processes that share one GPU and exchange values over sockets; trained is bench/runs/llama-sparse.yaml." ;;
    choices) say "Sequence 2048, random weights, medians of steps. The state hashes of both runs with products timed are equal, and" \
      "so are those of the two with a budget." ;;
    offload) say "Sequence 2048, random weights, medians of steps. fsdp2-offload: fully_shard per block, CPUOffloadPolicy, all of the" \
      "GPU's memory, microbatches of 8, compiled blocks that recompute, gradients summed on the GPU. zero3-offload: DeepSpeed's ZeRO" \
      "stage 3, parameters and optimizer state on the CPU, microbatches of 8, blocks that recompute. Their ratios are to strata" \
      "with 24 GiB." ;;
    largest) say "Two sequences of 2048 tokens, recomputation, all memory of GPU and host." ;;
  esac
}

part_table() {
  case $1 in
    tests) table tests 'tests|name' 'passed|passed' 'skipped|skipped' 'failed|failed' 'seconds|seconds' 'failed tests|failures' ;;
    sanitizer) table sanitizer 'tool|name' 'tests|tests' 'summary|summary' 'seconds|seconds' ;;
    ranks) table ranks 'what|name' 'tests passed|passed' 'seconds|seconds' 's/step|step_seconds|%.3f' 'device GiB|device_bytes|%.2f|1073741824' \
      'plan exact|exact' 'loss|loss|%.7f' ;;
    ceilings) table ceilings 'figure|name' 'TFLOP/s|flops|%.1f|1e12' 'best|best_flops|%.1f|1e12' 'GB/s|rate|%.1f|1e9' \
      'best|best_rate|%.1f|1e9' 'ratio|ratio|%.3f' 'what|what' ;;
    kernels) table kernels 'kernel|name' 'ms|milliseconds|%.4f' 'TFLOP/s|flops|%.1f|1e12' 'GB/s|rate|%.0f|1e9' \
      'of the ceiling|of_ceiling|%.3f' ;;
    train) table train "${training_columns[@]}" 'microbatch|microbatch' ;;
    choices) table choices "${training_columns[@]}" 'h2d GB/s|h2d_rate|%.1f|1e9' ;;
    offload) table offload "${training_columns[@]}" 'h2d GB/s|h2d_rate|%.1f|1e9' 'd2h GB/s|d2h_rate|%.1f|1e9' ;;
    largest) table largest 'run|name' 's/step|step_seconds|%.2f' \
      'device GiB|device_bytes|%.2f|1073741824' 'host GiB|host_bytes|%.2f|1073741824' 'loss|loss|%.4f' ;;
  esac
}

write_results() {
  records_as_json >"$results.json"
  {
    printf '# %s, %s\n\n' "$date" "$gpu"
    awk -F'\t' '$1 == "part=machine" { for (i = 3; i <= NF; ++i) { sub(/=/, ": ", $i); print "- " $i } }' "$records"
    local part
    for part in "${all_parts[@]}"; do
      grep -q "^part=$part"$'\t' "$records" || continue
      printf '\n## %s\n\n%s\n\n' "$part" "$(part_text "$part")" | cat -s
      part_table "$part"
    done
  } >"$results.md"
}

at_end() { [ -z "$results" ] || archive_logs "$results-logs-$time.tar.gz"; }

main() {
  case ${1-} in
    first | second) exec bash "$script_folder/$1.sh" "${@:2}" ;;
  esac
  begin_work
  parse_arguments "$@"
  require_gpu
  find_programs
  require_libraries
  use_launcher_of_bundle
  date=$(date -u +%F) time=$(date -u +%H%M%S)
  local folder=${RESULTS:-$script_folder/history}
  [ "$dry" = 0 ] || folder=$work/results
  mkdir -p "$folder" || give_up "$folder cannot be made"
  results=$folder/$date-$(tr '[:upper:] ' '[:lower:]-' <<<"${gpu#NVIDIA }" | tr -cd 'a-z0-9-')
  [ ! -f "$results.json" ] || json_as_records "$results.json" >"$records"
  host_gib=$(host_memory)
  describe_machine
  log_machine
  make_text
  say "Strata $version on $gpu; results go to $results.json and .md"
  local part
  for part in "${parts[@]}"; do
    printf '\n== %s\n' "$part"
    deadline=$((SECONDS + part_seconds - 5)) host_gib=$(host_memory)  # a program that is ended has 5 s for it
    "part_$part"
    write_results
    archive_logs "$results-logs-$time.tar.gz"
    part_table "$part"
  done
  [ "$dry" = 0 ] || failed=$(grep -c $'\tnote=failed' "$records")
  exit $((failed > 0))
}

main "$@"
