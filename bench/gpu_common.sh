# shellcheck shell=bash
# Sourced by bench/gpu.sh and bench/steps.sh: finds programs and CUDA's libraries, runs programs within limits, and turns their
# output into records. Needs bash, awk, tar, gzip and coreutils; uses Python if it is there.
# The caller calls begin_work first, and defines write_results, which puts the records into files.
script_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=bench/records.sh
source "$script_folder/records.sh"
json_awk=$script_folder/json.awk

export LC_ALL=C  # numbers have points
root=$(dirname "$script_folder")
caller=$(basename "$0")
python=${PYTHON:-python3}
dry=0       # 1: no GPU is needed, and nothing is a result
deadline=0  # in SECONDS: when `limited` ends a program
bundle=     # folder of the unpacked bundle, if one is named
launch=()   # what starts a program as ranks that share the GPU; empty if the program runs alone
running=    # process of `bounded`
gpu='' gpu_mib='' driver='' gpu_link='' host_gib='' date=''
library_code="scratch.parts.code of CUDA's libraries"  # of a report: assumed, since nothing measures it

say() { printf '%s\n' "$*"; }
give_up() {
  say "$caller: $*" >&2
  exit 1
}

# The folder of temporary files, which goes with this process; logs in it.
begin_work() {
  work=$(mktemp -d "${TMPDIR:-/tmp}/strata-gpu.XXXXXX")
  logs=$work/logs records=$work/records
  mkdir "$logs"
  : >"$records"
  : >"$logs/dmon.log"
  trap end_work EXIT
  trap 'exit 143' TERM
  trap 'exit 130' INT
}

end_work() {
  [ -z "$running" ] || kill "$running" 2>/dev/null
  at_end
  rm -rf "$work"
}

at_end() { :; }  # the caller may define its own

# --- limits --------------------------------------------------------------------------------------------------------------

seconds_left() { echo $((deadline - SECONDS)); }

# bounded SECONDS COMMAND...: ends it if it takes longer. Its status, or 124 if it was ended. A process that hangs in a driver
# survives SIGKILL; it is left behind.
bounded() {
  local limit=$1 start=$SECONDS status
  shift
  timeout --kill-after=2 "$limit" "$@" &
  running=$!
  while kill -0 "$running" 2>/dev/null; do
    if [ $((SECONDS - start)) -gt $((limit + 4)) ]; then
      disown "$running"
      running=
      return 124
    fi
    sleep 0.1
  done
  wait "$running"
  status=$?
  running=
  [ "$status" -ne 137 ] || [ $((SECONDS - start)) -lt "$limit" ] || status=124
  return "$status"
}

# limited COMMAND...: bounded by the deadline
limited() {
  local left
  left=$(seconds_left)
  [ "$left" -gt 0 ] || return 124
  bounded "$left" "$@"
}

# --- logs ----------------------------------------------------------------------------------------------------------------

# log_of PART NAME: the log of what this record is made of
log_of() { echo "$logs/$(tr -cs 'A-Za-z0-9.\n' - <<<"$1-$2").log"; }

# archive_logs FILE.tar.gz: the last 2 MiB of each log. A kill leaves the archive of the call before.
archive_logs() {
  local log tails=$work/tails
  rm -rf "$tails"
  mkdir -p "$tails/logs"
  for log in "$logs"/*; do
    [ ! -s "$log" ] || tail -c 2M "$log" >"$tails/logs/${log##*/}"
  done
  tar -czf "$1.new" -C "$tails" logs 2>/dev/null && mv "$1.new" "$1"
}

why_failed() { # STATUS LOG
  local last library
  last=$(grep -v '^[- ]*$' "$2" 2>/dev/null | tail -n 1 | cut -c 1-200)
  library=$(sed -n 's/.*error while loading shared libraries: \([^:]*\):.*/\1/p' "$2" 2>/dev/null | head -n 1)
  if [ "$1" -eq 124 ]; then
    echo "cut off by the time limit"
  elif [ "$dry" = 1 ] && [ -n "$library" ]; then
    echo "started; what is left needs $library"
  elif [ "$dry" = 1 ] && grep -qE 'NVIDIA driver|CUDA driver|libnccl' "$2"; then
    echo "started; what is left needs a GPU: $last"
  else
    echo "failed ($1): $last"
  fi
}

# --- programs and the machine --------------------------------------------------------------------------------------------

unpack_bundle() { # ARCHIVE
  bundle=$work/bundle
  mkdir -p "$bundle"
  tar -xf "$1" -C "$bundle" --strip-components=1 || give_up "$1 cannot be unpacked"
}

# unpack_programs FOLDER: what a bundle holds in programs.tar.xz, with the bundle's own xz, since a bare system has none.
# The programs come last, so they are there only if all else is.
unpack_programs() {
  local folder=$1 new=$1/unpacked
  [ -f "$folder/programs.tar.xz" ] && [ ! -x "$folder/bin/strata" ] || return 0
  rm -rf "$new"
  { mkdir -p "$new" && LD_LIBRARY_PATH=$folder/xz "$folder/xz/xz" -dc "$folder/programs.tar.xz" | tar -xf - -C "$new" &&
    find "$new" -mindepth 1 -maxdepth 1 ! -name bin -exec mv -t "$folder" {} + &&
    mv "$new/bin" "$folder/" && rmdir "$new"; } || give_up "$folder/programs.tar.xz cannot be unpacked"
}

build_programs() { give_up "no programs are in $root/bin or $root/build: name a bundle"; }  # the caller may define its own

# The programs of the named bundle; else of the bundle that this script lies in; else of build/.
find_programs() {
  source_folder=${bundle:-$root}
  unpack_programs "$source_folder"
  if [ -x "$source_folder/bin/strata" ]; then
    strata=$source_folder/bin/strata test_folder=$source_folder/bin bench_folder=$source_folder/bin
    version=$(cat "$source_folder/VERSION")
  else
    [ -x "$root/build/strata" ] || build_programs
    strata=$root/build/strata test_folder=$root/build/tests bench_folder=$root/build/bench
    version=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
  fi
  find_cuda_libraries
  absent_libraries=$(ours ldd "$strata" 2>/dev/null | awk '/not found/ { print $1 }' | tr '\n' ' ')
}

# CUDA's libraries, which a bundle does not have: the toolkit's, else those of PyPI's packages, which come with PyTorch.
find_cuda_libraries() {
  local folder packages
  cuda_libraries=
  packages=$(timeout 20 "$python" -c 'import nvidia; print(*nvidia.__path__, sep="\n")' 2>/dev/null)
  while read -r folder; do
    [ ! -d "$folder" ] || cuda_libraries+=$folder:
  done < <(printf '%s\n' /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib /usr/local/nvidia/lib64
    while read -r folder; do printf '%s\n' "$folder"/*/lib; done <<<"$packages"
    printf '%s\n' /opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib /usr/local/lib/python3*/*-packages/nvidia/*/lib)
}

# Only for our programs: PyTorch finds its own libraries, and must not find others first.
ours() { LD_LIBRARY_PATH=$cuda_libraries${LD_LIBRARY_PATH:-} STRATA_SOURCE_DIR=$source_folder "$@"; }

# What nvidia-smi says of the GPU, in one call, since it may hang.
ask_gpu() { # SECONDS
  local values names=name,memory.total,driver_version,power.limit,pcie.link.gen.max,pcie.link.width.max
  bounded "$1" nvidia-smi --query-gpu="$names" --format=csv,noheader,nounits --id=0 >"$logs/nvidia-smi.log" 2>&1 || return 1
  IFS=, read -ra values < <(sed 's/, */,/g' "$logs/nvidia-smi.log")
  [ ${#values[@]} -eq 6 ] || return 1
  gpu=${values[0]} gpu_mib=${values[1]} driver=${values[2]}
  gpu_link="${values[3]} W, PCIe ${values[4]} x${values[5]}"
}

# Dense bf16 FLOP/s that NVIDIA names for the GPU; nothing for others.
peak_flops() {
  case $1 in
    *H100*PCIe*) echo 756e12 ;;
    *H100*NVL*) echo 835e12 ;;
    *H100* | *H200*) echo 989e12 ;;
    *A100*) echo 312e12 ;;
  esac
}

# PyTorch's version if it has CUDA, without the 20 s of its import. PYTORCH=no leaves PyTorch out.
find_pytorch() {
  pytorch=
  [ "${PYTORCH:-yes}" = yes ] || return 0
  pytorch=$(timeout 20 "$python" -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null | grep -v cpu)
}

describe_machine() {
  cores=$(lscpu -p=Core,Socket 2>/dev/null | grep -v '^#' | sort -u | wc -l)
  [ "$cores" -gt 0 ] || cores=$(nproc)
  gpu_gib=${gpu_mib:+$((gpu_mib / 1024))}
  find_pytorch
  record machine machine "gpu=$gpu" "gpu_gib=$gpu_gib" "driver=$driver" "link=$gpu_link" \
    "cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "cores=$cores" "host_gib_used_at_most=$host_gib" \
    "memory_gib=$(awk '/^MemTotal:/ { print int($2 / 1048576) }' /proc/meminfo)" \
    "system=$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)" "kernel=$(uname -r)" "version=$version" "date=$date" \
    "pytorch=$pytorch" "absent_libraries=$absent_libraries"
}

# What a reader of the logs may want to know of the machine.
log_machine() {
  { lscpu || cat /proc/cpuinfo; cat /proc/meminfo; bounded 5 df -h; ulimit -a; } >"$logs/machine.log" 2>&1
  [ -z "$driver" ] || bounded 10 nvidia-smi -q >>"$logs/machine.log" 2>&1
}

# Text to train on, since a bare machine may have no headers: whatever is there, and noise if that is little.
make_text() {
  text=$work/text
  timeout 15 find /usr/include /usr/local/cuda/include /usr/share/doc /usr/share/common-licenses /usr/lib/python3* -type f \
    \( -name '*.h' -o -name '*.py' -o -name 'copyright' -o -name 'GPL*' \) 2>/dev/null | sort | head -n 20000 |
    tr '\n' '\0' | timeout 20 xargs -0 cat 2>/dev/null | head -c 32M >"$text"
  [ "$(stat -c %s "$text")" -ge 8000000 ] || head -c 8000000 /dev/urandom | od -An -tx1 >>"$text"
}

# --- tests ---------------------------------------------------------------------------------------------------------------

# failures_of LOG: names of the tests that failed
failures_of() {
  sed -n 's/^\[  FAILED  \] \([^ ,]*[.][^ ,]*\).*/\1/p' "$1" | sort -u
}

# unfinished_of LOG: the test that was running when the program ended, if any
unfinished_of() {
  awk '/^\[ RUN      \]/ { name = $4 } /^\[ +(OK|FAILED|SKIPPED) +\]/ { name = "" } END { if (name != "") print name }' "$1"
}

# run_tests PART NAME PROGRAM FILTER: its status
run_tests() {
  local part=$1 name=$2 program=$3 log status note='' start=$SECONDS failures unfinished measured
  log=$(log_of "$part" "$name")
  if [ ! -x "$test_folder/$program" ]; then
    record "$part" "$name" "note=not run: $program is not here"
    return
  fi
  ours limited "$test_folder/$program" --gtest_color=no --gtest_filter="$4" >"$log" 2>&1
  status=$?
  count() { grep -c "$1" "$log"; }
  mapfile -t failures < <(failures_of "$log")
  unfinished=$(unfinished_of "$log")
  measured=$(grep -qE '^\[ +(OK|FAILED|SKIPPED) ' "$log" && echo yes)
  if [ "$status" -eq 0 ]; then
    [ "$(count '^\[       OK')" -gt 0 ] || note="no test ran"
  elif [ "$status" -eq 1 ] && [ ${#failures[@]} -gt 0 ] && [ -z "$unfinished" ]; then
    note="failed tests: ${#failures[@]}"
  else
    note="$(why_failed "$status" "$log")${unfinished:+ in $unfinished}"
  fi
  [ -z "$unfinished" ] || failures+=("$unfinished")
  record "$part" "$name" "passed=$(count '^\[       OK')" "skipped=$(count '^\[  SKIPPED.*ms)$')" \
    "failed=${#failures[@]}" "seconds=$((SECONDS - start))" "program=$program" "failures=${failures[*]}" "note=$note" \
    "measured=$measured"
  write_results
  return "$status"
}

# --- figures of programs -------------------------------------------------------------------------------------------------

run_ceilings() { # FOLDER
  local log line name key status
  log=$(log_of ceilings bench_ceilings)
  STRATA_BENCH_DEVICE=cuda ours limited "$bench_folder/bench_ceilings" "$1" >"$log" 2>"$log.errors"
  status=$?
  while read -r line; do
    flatten <<<"$line" >"$work/line"
    name=$(of_path figure <"$work/line") key=rate
    [ -n "$name" ] || continue
    [ "$(of_path unit <"$work/line")" != FLOP/s ] || key=flops
    record ceilings "$name" "$key=$(of_path median <"$work/line")" "best_$key=$(of_path best <"$work/line")" \
      "what=$(of_path what <"$work/line")" measured=yes
  done <"$log"
  [ "$status" -eq 0 ] || record ceilings bench_ceilings "note=$(why_failed "$status" "$log.errors")"
  refer_to_ceilings
  return "$status"
}

# Products in fp32 serve no bf16 run. A benchmark counts its own time until this many seconds, so a plain number keeps all short.
run_kernels() {
  local log status
  log=$(log_of kernels bench_kernels)
  STRATA_BENCH_DEVICE=cuda ours limited "$bench_folder/bench_kernels" --benchmark_format=json --benchmark_min_time=0.03 \
    --benchmark_filter=-_fp32 >"$log" 2>"$log.errors"
  status=$?
  read_kernels
  [ "$status" -eq 0 ] || record kernels bench_kernels "note=$(why_failed "$status" "$log.errors")"
  return "$status"
}

# Records of the kernels' log, beside the ceilings if these are measured.
read_kernels() {
  local log gemm copy name time flops rate ceiling figure
  log=$(log_of kernels bench_kernels)
  [ -s "$log" ] || return 0
  gemm=$(field ceilings gemm_bf16 flops) copy=$(field ceilings device_copy rate)
  flatten <"$log" | awk -F'\t' -v OFS='\t' '
    function put() { if (name != "") print name, time, flops, rate; name = time = flops = rate = "-" }
    split($1, path, ".") == 3 && path[1] == "benchmarks" {
      if (path[2] "" != last "") { if (last != "") put(); last = path[2] ""; flops = rate = "-" }
      if (path[3] == "name") { name = $2; sub(/\/manual_time$/, "", name) }
      if (path[3] == "real_time") time = $2
      if (path[3] == "FLOPS") flops = $2
      if (path[3] == "bytes/s") rate = $2
    }
    END { if (last != "") put() }' >"$work/kernels"
  while IFS=$'\t' read -r name time flops rate; do
    ceiling=$copy figure=$rate
    [ "$flops" = - ] || { ceiling=$gemm figure=$flops; }
    record kernels "$name" "milliseconds=$time" "flops=${flops#-}" "rate=${rate#-}" \
      "of_ceiling=$(quotient "$figure" "$ceiling")" measured=yes
  done <"$work/kernels"
}

# Sets of_peak and of_gemm of all runs but those in fp32: model FLOPs per second over the GPU's peak and over the measured product.
refer_to_ceilings() {
  awk -F'\t' -v OFS='\t' -v peak="$(peak_flops "$gpu")" -v gemm="$(field ceilings gemm_bf16 flops)" '
    {
      flops = step = 0; line = precision = ""
      for (i = 1; i <= NF; ++i) {
        if ($i ~ /^flops_model=/) flops = substr($i, 13) + 0
        if ($i ~ /^step_seconds=/) step = substr($i, 14) + 0
        if ($i ~ /^precision=/) precision = substr($i, 11)
        if ($i !~ /^of_(peak|gemm)=/) line = line (line == "" ? "" : OFS) $i
      }
      if (flops > 0 && step > 0 && precision != "fp32") {
        if (peak + 0 > 0) line = line OFS sprintf("of_peak=%.4f", flops / step / peak)
        if (gemm + 0 > 0) line = line OFS sprintf("of_gemm=%.4f", flops / step / gemm)
      }
      print line
    }' "$records" >"$records.new" && mv "$records.new" "$records"
}

# The median of step_seconds without the first, as `strata train` computes tokens per second.
median_step() {
  awk -F'\t' '$1 ~ /^step_seconds\.[0-9]+$/ && $1 != "step_seconds.0" { print $2 }' "$1" | sort -g |
    awk '{ value[NR] = $1 } END { if (NR) print (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'
}

last_loss() { awk -F'\t' '$1 ~ /^loss\./ { last = $2 } END { print last }' "$1"; }

# What a flattened report says is slower than it could be.
slow_paths_of() { awk -F'\t' '$1 ~ /^slow_paths\./ { printf "%s%s", separator, $2; separator = "; " }' "$1"; }

# Whether planned and measured memory and traffic of a flattened report are equal, apart from what is only assumed.
exactness() {
  awk -F'\t' -v assumed="$library_code" '
    $1 == assumed { unmeasured = $2 }
    $1 ~ /planned_(peak_)?bytes$/ { path = $1; sub(/planned/, "measured", path); planned[path] = $2 }
    $1 ~ /measured_(peak_)?bytes$/ { measured[$1] = $2 }
    END { if ("scratch.measured_bytes" in planned) planned["scratch.measured_bytes"] -= unmeasured
          for (path in planned) { ++count; if (planned[path] != measured[path]) wrong = wrong " " path }
          if (count) print wrong == "" ? "yes" : "no:" wrong }' "$1"
}

# driver_bytes_since LINE: the most device memory in use by the driver's word, in lines of dmon.log after this one. Nothing
# without a monitor, or if a run is over before the monitor's next second.
driver_bytes_since() {
  awk -v start="$1" '
    $1 == "#" { for (i = 2; i <= NF; ++i) if ($i == "fb") column = i - 1; next }
    NR > start && column && $column + 0 > most { most = $column + 0 }
    END { if (most) printf "%.0f", most * 1048576 }' "$logs/dmon.log"
}

# report_of PART NAME: the report of this run
report_of() {
  local log
  log=$(log_of "$1" "$2")
  echo "${log%log}json"
}

# train_strata PART NAME RUN_FILE --set KEY=VALUE...
train_strata() {
  local part=$1 name=$2 run=$3 report flat=$work/report log status step monitored
  log=$(log_of "$part" "$name") report=$(report_of "$part" "$name")
  shift 3
  rm -f "$report"
  monitored=$(wc -l <"$logs/dmon.log")
  ours limited "${launch[@]}" "$strata" train "$source_folder/bench/runs/$run.yaml" --json "$report" --set "data.path=$text" "$@" \
    </dev/null >"$log" 2>&1
  status=$?
  [ -f "$report" ] || : >"$report"
  flatten <"$report" >"$flat"
  value() { of_path "$1" <"$flat"; }
  step=$(median_step "$flat")
  record "$part" "$name" program=strata "tokens_per_second=$(value tokens_per_second)" "step_seconds=$step" \
    "precision=$(value precision)" "mfu=$(value mfu)" "hfu=$(value hfu)" \
    "bound_seconds=$(value bound_seconds)" "bound_by=$(value bound_by)" \
    "bound_over_step=$(quotient "$(value bound_seconds)" "$step")" \
    "device_bytes=$(value memory.device.measured_peak_bytes)" "host_bytes=$(value memory.host.measured_peak_bytes)" \
    "scratch_bytes=$(value scratch.measured_bytes)" "library_bytes=$(value "$library_code")" \
    "driver_bytes=$(driver_bytes_since "$monitored")" \
    "h2d_rate=$(quotient "$(value traffic.h2d.measured_bytes)" "$(value traffic.h2d.busy_seconds)")" \
    "d2h_rate=$(quotient "$(value traffic.d2h.measured_bytes)" "$(value traffic.d2h.busy_seconds)")" \
    "exact=$(exactness "$flat")" "flops_model=$(value flops.model)" "flops_per_second=$(value machine.flops_per_second)" \
    "loss=$(last_loss "$flat")" "state_hash=$(value state_hash)" "slow=$(slow_paths_of "$flat")" \
    "note=$([ "$status" -eq 0 ] || why_failed "$status" "$log")" "measured=${step:+yes}"
  refer_to_ceilings
  write_results
  return "$status"
}

# The value of a key of a run file
shape_of() { sed -n "s/^ *$1: //p" "$source_folder/bench/runs/$2.yaml"; }

# train_pytorch PART NAME OF RUN_FILE CONFIG ARGUMENTS...: OF is the record of strata that it is compared with
train_pytorch() {
  local part=$1 name=$2 of=$3 run=$4 config=$5 flat=$work/pytorch report log status monitored
  log=$(log_of "$part" "$name") report=$(report_of "$part" "$name")
  shift 5
  if [ -z "$pytorch" ]; then
    record "$part" "$name" "note=not run: $python has no PyTorch with CUDA"
    return 0
  fi
  monitored=$(wc -l <"$logs/dmon.log")
  limited "$python" "$script_folder/pytorch_gpu.py" --architecture "$(shape_of architecture "$run")" --config "$config" \
    --file "$text" "$@" >"$report" 2>"$log"
  status=$?
  flatten <"$report" >"$flat"
  value() { of_path "$1" <"$flat"; }
  strata_field() { field "$part" "$of" "$1"; }
  local error step tokens
  step=$(value median_step_seconds) tokens=$(value tokens_per_second)
  error=$(value error)
  [ -n "$error" ] || [ "$status" -eq 0 ] || error=$(why_failed "$status" "$log")
  record "$part" "$name" program=PyTorch "tokens_per_second=$tokens" "step_seconds=$step" \
    "mfu=$(quotient "$(strata_field flops_model)" "$step" "$(strata_field flops_per_second)")" \
    "flops_model=$(strata_field flops_model)" \
    "device_bytes=$(value peak_device_bytes)" "host_bytes=$(value peak_rss_bytes)" "microbatch=$(value microbatch)" \
    "driver_bytes=$(driver_bytes_since "$monitored")" \
    "strata_over_this=$(quotient "$(strata_field tokens_per_second)" "$tokens")" "loss=$(last_loss "$flat")" \
    "note=$error" "measured=${step:+yes}"
  refer_to_ceilings
  write_results
  return "$status"
}

# plan RUN_FILE --set KEY=VALUE...: as JSON
plan() { ours "$strata" plan "$source_folder/bench/runs/$1.yaml" --json - "${@:2}" 2>/dev/null; }
