#!/usr/bin/env bash
# Tests and measures Strata on a machine with an NVIDIA GPU; needs no Python, no compiler and no network in an unpacked bundle.
#   bench/gpu.sh [--missing | --dry] [BUNDLE.tar.xz] [PART...]
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
#   offload    Llama 8B with device budgets of 80, 48, 24 and 12 GiB, beside PyTorch FSDP2 with CPU offload
#   largest    the largest Llama with 8B's blocks that trains
#   cpu        the other cases of the programs of the part tests, which this machine's processor decides
# Programs: those of BUNDLE if one is named; of the bundle that this script lies in; of build/, built where it is missing.
# Results, with those of earlier parts of the same day: bench/results/DATE-GPU.json and .md, kept up to date while a part runs.
# --missing leaves out what these have. --dry needs no GPU: every part starts, and says what it could not do without one; its results go
# nowhere.
# Variables: RESULTS (folder), HOST_MEMORY (GiB to use; default: most of what is free when a part begins, since a machine may be given more
# as it asks for it), DISK (folder on the disk to measure; default: that of TMPDIR), PYTHON, PART_SECONDS.
# shellcheck disable=SC2317  # parts are called by name
set -uo pipefail
script_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$script_folder")
# shellcheck source=bench/records.sh
source "$script_folder/records.sh"
json_awk=$script_folder/json.awk

part_seconds=${PART_SECONDS:-480}
python=${PYTHON:-python3}
all_parts=(tests sanitizer ranks ceilings kernels train choices offload largest cpu)
cuda_tests='*Cuda*:*cuda*:*Gpu*:*GPU*'
dry=0
launch=()  # what starts a program as ranks that share the GPU; empty where it runs by itself
mpirun=mpirun launcher_environment=()
failed=0

say() { printf '%s\n' "$*"; }
give_up() {
  say "$*" >&2
  exit 1
}

# --- arguments, programs, machine ----------------------------------------------------------------------------------------

parse_arguments() {
  missing_only=0
  parts=()
  local argument
  for argument; do
    case $argument in
      --missing) missing_only=1 ;;
      --dry) dry=1 ;;
      *.tar.xz) unpack_bundle "$argument" ;;
      *)
        [[ " ${all_parts[*]} " == *" $argument "* ]] || give_up "gpu.sh: no part $argument; parts: ${all_parts[*]}"
        parts+=("$argument")
        ;;
    esac
  done
  [ ${#parts[@]} -gt 0 ] || parts=("${all_parts[@]}")
}

# Where there is no xz.
unpack_with_python() {
  "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter="fully_trusted")' "$1" "$work/python" &&
    mv "$work"/python/*/* "$bundle/"
}

unpack_bundle() {
  bundle=$work/bundle
  mkdir -p "$bundle"
  { tar -xf "$1" -C "$bundle" --strip-components=1 2>/dev/null || unpack_with_python "$1"; } || give_up "gpu.sh: $1 cannot be unpacked"
}

find_programs() {
  source_folder=${bundle:-$root}
  if [ -x "$source_folder/bin/strata" ]; then
    strata=$source_folder/bin/strata test_folder=$source_folder/bin bench_folder=$source_folder/bin
    use_launcher_of_bundle
    version=$(cat "$source_folder/VERSION")
  else
    if [ ! -x "$root/build/strata" ]; then
      bash -ec 'source "$1"; build all' build "$root/cmake/setup.sh" || give_up "gpu.sh: the build failed"
    fi
    strata=$root/build/strata test_folder=$root/build/tests bench_folder=$root/build/bench
    version=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
  fi
  find_cuda_libraries
  local absent
  absent=$(ours ldd "$strata" 2>/dev/null | awk '/not found/ { print $1 }' | tr '\n' ' ')
  [ -z "$absent" ] || give_up "gpu.sh: shared libraries are missing: ${absent}(CUDA's come with the CUDA toolkit or with PyTorch)"
}

# Open MPI's and PMIx's folders, which they have built in; ranks start on this machine alone, which may have no ssh.
use_launcher_of_bundle() {
  local folder=$source_folder
  [ -x "$folder/launcher/mpirun" ] || return 0
  mpirun=$folder/launcher/mpirun
  launcher_environment=(OMPI_MCA_plm=isolated OPAL_PREFIX="$folder" OPAL_BINDIR="$folder/launcher" OPAL_LIBDIR="$folder/lib"
    OPAL_PKGLIBDIR="$folder/lib/openmpi" OPAL_PKGDATADIR="$folder/share/openmpi" PMIX_PREFIX="$folder"
    PMIX_PKGLIBDIR="$folder/lib/pmix" LD_LIBRARY_PATH="$folder/lib:${LD_LIBRARY_PATH:-}")
}

# CUDA's libraries, which a bundle does not have: the toolkit's, else those of PyPI's packages, which come with PyTorch.
find_cuda_libraries() {
  local folder packages
  cuda_libraries=
  packages=$("$python" -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null)
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib /usr/local/nvidia/lib64 \
    ${packages:+"$packages"/*/lib}; do
    [ ! -d "$folder" ] || cuda_libraries+=$folder:
  done
}

# Only for our programs: PyTorch finds its own libraries, and must not find others first.
ours() { LD_LIBRARY_PATH=$cuda_libraries${LD_LIBRARY_PATH:-} STRATA_SOURCE_DIR=$source_folder "$@"; }

require_gpu() {
  gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader --id=0 2>/dev/null | head -n 1)
  [ "$dry" = 0 ] || gpu=${gpu:-no GPU}
  [ -n "$gpu" ] || give_up "gpu.sh: nvidia-smi finds no NVIDIA GPU with a driver here, so there is nothing to measure."
}

# A GPU of 80 GB where a dry run has none.
gpu_number() {
  nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits --id=0 2>/dev/null | head -n 1 | grep . || [ "$dry" = 0 ] ||
    { [ "$1" != memory.total ] || echo 81559; }
}

# GiB that may be used now.
host_memory() {
  echo "${HOST_MEMORY:-$(awk '/^MemAvailable:/ { print int($2 * 0.92 / 1048576) }' /proc/meminfo)}"
}

describe_machine() {
  gpu_gib=$(awk "BEGIN { print int($(gpu_number memory.total) / 1024) }")
  cores=$(lscpu -p=Core,Socket 2>/dev/null | grep -v '^#' | sort -u | wc -l)
  [ "$cores" -gt 0 ] || cores=$(nproc)
  host_gib=$(host_memory)
  pytorch=$("$python" -c 'import torch; assert torch.cuda.is_available(); print(torch.__version__)' 2>/dev/null)
  record machine machine "gpu=$gpu" "gpu_gib=$gpu_gib" "driver=$(gpu_number driver_version)" \
    "cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "cores=$cores" "host_gib_used_at_most=$host_gib" \
    "system=$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)" "kernel=$(uname -r)" "version=$version" "date=$date" \
    "pytorch=$pytorch"
}

# Text to train on, since a bare machine may have no headers: whatever is there, and noise where that is little.
make_text() {
  text=$work/text
  find /usr/include /usr/local/cuda/include /usr/share/doc /usr/share/common-licenses /usr/lib/python3* -type f \
    \( -name '*.h' -o -name '*.py' -o -name 'copyright' -o -name 'GPL*' \) 2>/dev/null | sort | head -n 20000 |
    tr '\n' '\0' | xargs -0 cat 2>/dev/null | head -c 32M >"$text"
  [ "$(stat -c %s "$text")" -ge 8000000 ] || head -c 8000000 /dev/urandom | od -An -tx1 >>"$text"
}

# --- running and recording -----------------------------------------------------------------------------------------------

seconds_left() { echo $((deadline - SECONDS)); }

# limited COMMAND...: ends it with the part. Its status, or 124 where the time was over.
limited() {
  local left
  left=$(seconds_left)
  [ "$left" -gt 5 ] || return 124
  timeout --kill-after=15 "$((left - 5))" "$@"
}

# skipped PART NAME: whether it is measured already, or there is no time for it
skipped() {
  if [ "$missing_only" = 1 ] && [ -n "$(field "$1" "$2" measured)" ]; then
    return 0
  fi
  [ "$(seconds_left)" -le 15 ] || return 1
  [ -n "$(field "$1" "$2" measured)" ] || record "$1" "$2" "note=not run: the part's time was over"
}

why_failed() { # STATUS LOG
  if [ "$1" -eq 124 ]; then
    echo "cut off by the part's time limit"
  elif [ "$dry" = 1 ] && grep -qE 'NVIDIA driver|CUDA driver|libnccl' "$2"; then
    echo "started; what is left needs a GPU"
  else
    echo "failed ($1): $(grep -v '^[- ]*$' "$2" 2>/dev/null | tail -n 1 | cut -c 1-200)"
  fi
}

# pytorch_missing PART NAME: says what is missing, where it is
pytorch_missing() {
  [ -z "$pytorch" ] || return 1
  record "$1" "$2" "note=not run: $python has no PyTorch with CUDA"
}

# --- parts ---------------------------------------------------------------------------------------------------------------

run_tests() { # PART, PROGRAM, FILTER
  local log=$work/$2.log status note start=$SECONDS
  if [ ! -x "$test_folder/$2" ]; then
    record "$1" "$2" "note=not here"
    return
  fi
  ! skipped "$1" "$2" || return 0
  ours limited "$test_folder/$2" --gtest_filter="$3" >"$log" 2>&1
  status=$?
  count() { sed -n "s/^\[  $1 *\] \([0-9]*\) test.*/\1/p" "$log" | tail -n 1; }
  note=$([ "$status" -eq 0 ] || why_failed "$status" "$log")
  [ "$status-$(count PASSED)" != 0-0 ] || note="no test ran"
  record "$1" "$2" "passed=$(count PASSED)" "skipped=$(count SKIPPED)" "failed=$(count FAILED)" \
    "seconds=$((SECONDS - start))" "note=$note" measured=yes
  write_results
  [ "$status" -eq 0 ] && return
  failed=1
  grep -E '^\[  FAILED|Failure|rror' "$log" | sort -u | head -n 40
}

part_tests() {
  local program
  for program in device_test execute_test parity_test; do
    run_tests tests "$program" "$cuda_tests"
  done
}

part_cpu() {
  local program
  for program in device_test execute_test parity_test; do
    run_tests cpu "$program" "*-$cuda_tests"
  done
}

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
    log=$work/$tool.log start=$SECONDS
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
  local log=$work/launcher.log status
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
    name="collectives, ranks: $count" log=$work/ranks.log start=$SECONDS
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
    [ -n "$loss" ] || [ "$(seconds_left)" -gt 15 ] || continue  # the time was over
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
  local log=$work/ceilings.log line name key status
  STRATA_BENCH_DEVICE=cuda ours limited "$bench_folder/bench_ceilings" "${DISK:-$work}" >"$log" 2>"$log.errors"
  status=$?
  while read -r line; do
    flatten <<<"$line" >"$work/line"
    name=$(of_path figure <"$work/line") key=rate
    [ "$(of_path unit <"$work/line")" != FLOP/s ] || key=flops
    record ceilings "$name" "$key=$(of_path median <"$work/line")" "best_$key=$(of_path best <"$work/line")" \
      "what=$(of_path what <"$work/line")" measured=yes
  done <"$log"
  [ "$status" -eq 0 ] || record ceilings bench_ceilings "note=$(why_failed "$status" "$log.errors")"
  ours limited "$bench_folder/bench_adamw" --benchmark_format=json $((256 << 20)) "$cores" 2>"$log.errors" |
    flatten >"$work/adamw"
  record ceilings adamw_over_stream "ratio=$(of_path benchmarks.0.rate_of_stream <"$work/adamw")" measured=yes \
    "what=bench_adamw: the CPU's AdamW against a bare stream of the same bytes, $cores threads"
}

part_kernels() {
  local log=$work/kernels.json gemm gemm_fp32 copy status
  gemm=$(field ceilings gemm_bf16 flops) gemm_fp32=$(field ceilings gemm_fp32 flops) copy=$(field ceilings device_copy rate)
  STRATA_BENCH_DEVICE=cuda ours limited "$bench_folder/bench_kernels" --benchmark_format=json >"$log" 2>"$log.errors"
  status=$?
  flatten <"$log" | awk -F'\t' -v OFS='\t' '
    function put() { if (name != "") print name, time, flops, rate; name = time = flops = rate = "-" }
    split($1, path, ".") == 3 && path[1] == "benchmarks" {
      if (path[2] != last) { if (last != "") put(); last = path[2]; flops = rate = "-" }
      if (path[3] == "name") { name = $2; sub(/\/manual_time$/, "", name) }
      if (path[3] == "real_time") time = $2
      if (path[3] == "FLOPS") flops = $2
      if (path[3] == "bytes/s") rate = $2
    }
    END { if (last != "") put() }' >"$work/kernels"
  local name time flops rate ceiling figure
  while IFS=$'\t' read -r name time flops rate; do
    ceiling=$copy figure=$rate
    [ "$flops" = - ] || { ceiling=$gemm figure=$flops; }
    [[ $name != *_fp32 ]] || ceiling=$gemm_fp32
    record kernels "$name" "milliseconds=$time" "flops=${flops#-}" "rate=${rate#-}" \
      "of_ceiling=$(quotient "$figure" "$ceiling")" measured=yes
  done <"$work/kernels"
  [ "$status" -eq 0 ] || record kernels bench_kernels "note=$(why_failed "$status" "$log.errors")"
}

# The median of step_seconds without the first, as `strata train` computes tokens per second.
median_step() {
  awk -F'\t' '$1 ~ /^step_seconds\.[0-9]+$/ && $1 != "step_seconds.0" { print $2 }' "$1" | sort -g |
    awk '{ value[NR] = $1 } END { if (NR) print (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'
}

last_loss() { awk -F'\t' '$1 ~ /^loss\./ { last = $2 } END { print last }' "$1"; }

# train_strata PART NAME RUN_FILE --set KEY=VALUE...
train_strata() {
  local part=$1 name=$2 run=$3 report=$work/report.json flat=$work/report log=$work/train.log status step
  shift 3
  rm -f "$report"
  ours limited "${launch[@]}" "$strata" train "$script_folder/runs/$run.yaml" --json "$report" --set "data.path=$text" "$@" \
    </dev/null >"$log" 2>&1
  status=$?
  [ -f "$report" ] || : >"$report"
  flatten <"$report" >"$flat"
  value() { of_path "$1" <"$flat"; }
  step=$(median_step "$flat")
  record "$part" "$name" program=strata "tokens_per_second=$(value tokens_per_second)" "step_seconds=$step" \
    "mfu=$(value mfu)" "hfu=$(value hfu)" \
    "of_gemm=$(quotient "$(value flops.model)" "$step" "$(field ceilings gemm_bf16 flops)")" \
    "bound_seconds=$(value bound_seconds)" "bound_by=$(value bound_by)" \
    "bound_over_step=$(quotient "$(value bound_seconds)" "$step")" \
    "device_bytes=$(value memory.device.measured_peak_bytes)" "host_bytes=$(value memory.host.measured_peak_bytes)" \
    "h2d_rate=$(quotient "$(value traffic.h2d.measured_bytes)" "$(value traffic.h2d.busy_seconds)")" \
    "d2h_rate=$(quotient "$(value traffic.d2h.measured_bytes)" "$(value traffic.d2h.busy_seconds)")" \
    "exact=$(exactness "$flat")" "flops_model=$(value flops.model)" "flops_per_second=$(value machine.flops_per_second)" \
    "loss=$(last_loss "$flat")" "state_hash=$(value state_hash)" \
    "note=$([ "$status" -eq 0 ] || why_failed "$status" "$log")" "measured=${step:+yes}"
  write_results
}

# Whether planned and measured memory and traffic of a flattened report are equal.
exactness() {
  awk -F'\t' '
    $1 ~ /planned_(peak_)?bytes$/ { path = $1; sub(/planned/, "measured", path); planned[path] = $2 }
    $1 ~ /measured_(peak_)?bytes$/ { measured[$1] = $2 }
    END { for (path in planned) { ++count; if (planned[path] != measured[path]) wrong = wrong " " path }
          if (count) print wrong == "" ? "yes" : "no:" wrong }' "$1"
}

# architecture and config of a run file, as words of PyTorch's program
shape_of() { sed -n "s/^ *$1: //p" "$script_folder/runs/$2.yaml"; }

# train_pytorch PART NAME OF RUN_FILE CONFIG ARGUMENTS...: OF is the record of strata that it is compared with
train_pytorch() {
  local part=$1 name=$2 of=$3 run=$4 config=$5 flat=$work/pytorch log=$work/pytorch.log status
  shift 5
  ! pytorch_missing "$part" "$name" || return 0
  limited "$python" "$script_folder/pytorch_gpu.py" --architecture "$(shape_of architecture "$run")" --config "$config" \
    --file "$text" "$@" >"$work/pytorch.json" 2>"$log"
  status=$?
  flatten <"$work/pytorch.json" >"$flat"
  value() { of_path "$1" <"$flat"; }
  strata_field() { field "$part" "$of" "$1"; }
  local error step tokens
  step=$(value median_step_seconds) tokens=$(value tokens_per_second)
  error=$(value error)
  [ -n "$error" ] || [ "$status" -eq 0 ] || error=$(why_failed "$status" "$log")
  record "$part" "$name" program=PyTorch "tokens_per_second=$tokens" "step_seconds=$step" \
    "mfu=$(quotient "$(strata_field flops_model)" "$step" "$(strata_field flops_per_second)")" \
    "of_gemm=$(quotient "$(strata_field flops_model)" "$step" "$(field ceilings gemm_bf16 flops)")" \
    "device_bytes=$(value peak_device_bytes)" "host_bytes=$(value peak_rss_bytes)" "microbatch=$(value microbatch)" \
    "strata_over_this=$(quotient "$(strata_field tokens_per_second)" "$tokens")" "loss=$(last_loss "$flat")" \
    "note=$error" "measured=${step:+yes}"
  write_results
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

plan() { ours "$strata" plan "$script_folder/runs/$1.yaml" --json - "${@:2}" 2>/dev/null; }

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
    if [ "$budget" = pytorch ]; then
      ! skipped offload "$name, ${tokens}k tokens, FSDP2" || continue
      train_pytorch offload "$name, ${tokens}k tokens, FSDP2" "$name, ${tokens}k tokens, 24 GiB" llama-8b "$config" \
        --mode fsdp2-offload --microbatch 8 --microbatches $((tokens / 16)) --steps 3 --warmup 2
      continue
    fi
    ! skipped offload "$name, ${tokens}k tokens, $budget GiB" || continue
    device=${budget}GiB
    [ "$budget" -lt $((gpu_gib - 2)) ] || device=unlimited  # a card of 80 GB has less than 80 GiB
    train_strata offload "$name, ${tokens}k tokens, $budget GiB" llama-8b --set "memory.device=$device" \
      --set "memory.host=${host_gib}GiB" --set "model.config.num_hidden_layers=$blocks" --set "train.batch=$((tokens / 2))"
  done <<<"24 32
pytorch 32
12 32
48 32
80 32
24 16
pytorch 16
24 64
pytorch 64
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
  'MFU|mfu|%.3f' 'HFU|hfu|%.3f'
  'model FLOPs / GEMM ceiling|of_gemm|%.3f' 'bound s|bound_seconds|%.3f' 'by|bound_by' 'bound / step|bound_over_step|%.3f'
  'device GiB|device_bytes|%.2f|1073741824' 'host GiB|host_bytes|%.2f|1073741824' 'strata / this|strata_over_this|%.2f'
  'plan exact|exact' 'loss|loss|%.4f' 'state hash|state_hash')

# How a part's figures were taken.
part_text() {
  case $1 in
    kernels) say "At the shapes of a Llama 8B step with 16384 tokens. Of the ceiling: FLOP/s over gemm_bf16 (gemm_fp32 for" \
      "fp32), bytes/s over device_copy; medians." ;;
    train) say "Sequence 2048, random weights, medians of steps. MFU and HFU are against the matrix-product rate that strata" \
      "measures at its start, PyTorch's too. PyTorch: fp32 weights, bf16 autocast, SDPA, torch.compile of the whole model," \
      "fused AdamW, 16 bytes of state per parameter, the largest microbatch that fits." ;;
    ranks) say "Processes that share one GPU and exchange values over sockets; trained is bench/runs/llama-sparse.yaml." ;;
    choices) say "Sequence 2048, random weights, medians of steps. The state hashes of both runs with products timed are equal, and" \
      "so are those of the two with a budget." ;;
    offload) say "Sequence 2048, random weights, medians of steps. FSDP2: fully_shard per block, CPUOffloadPolicy, all of the" \
      "GPU's memory, microbatches of 8, compiled blocks that recompute, gradients summed on the GPU; its ratio is to strata" \
      "with 24 GiB." ;;
    largest) say "Two sequences of 2048 tokens, recomputation, all memory of GPU and host." ;;
  esac
}

part_table() {
  case $1 in
    tests) table tests 'tests|name' 'passed|passed' 'skipped|skipped' 'failed|failed' 'seconds|seconds' ;;
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

main() {
  work=$(mktemp -d "${TMPDIR:-/tmp}/strata-gpu.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  parse_arguments "$@"
  require_gpu
  find_programs
  date=$(date -u +%F)
  local folder=${RESULTS:-$script_folder/results}
  [ "$dry" = 0 ] || folder=$work/results
  mkdir -p "$folder" || give_up "gpu.sh: $folder cannot be made"
  results=$folder/$date-$(tr '[:upper:] ' '[:lower:]-' <<<"${gpu#NVIDIA }" | tr -cd 'a-z0-9-')
  records=$work/records
  : >"$records"
  [ ! -f "$results.json" ] || json_as_records "$results.json" >"$records"
  describe_machine
  make_text
  say "Strata $version on $gpu; results go to $results.json and .md"
  local part
  for part in "${parts[@]}"; do
    printf '\n== %s\n' "$part"
    deadline=$((SECONDS + part_seconds)) host_gib=$(host_memory)
    "part_$part"
    write_results
    part_table "$part"
  done
  [ "$dry" = 0 ] || failed=$(grep -c $'\tnote=failed' "$records")
  exit $((failed > 0))
}

main "$@"
