#!/usr/bin/env bash
# Tests bench/first.sh, bench/second.sh and bench/gpu.sh on a bundle of fake programs, so without a GPU:
#
#   gpu_scripts_test.sh CASE
#
# A fake program prints the file beside it with .out, then exits with the status in .status. HANG in .out never ends, even on SIGTERM.
set -uo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/strata-bundle-0.1
export PYTORCH=no HOST_MEMORY=100 OUT=$work/out TMPDIR=$work/tmp PATH=$work/path:$PATH
mkdir -p "$bundle/bin" "$bundle/bench" "$work/path" "$TMPDIR"

fail() {
  printf '%s\n' "$*" "--- output:" >&2
  cat "$work/output" >&2
  exit 1
}

# --- fakes ---------------------------------------------------------------------------------------------------------------

fake() { # FILE: prints standard input
  cat >"$1.out"
  cat >"$1" <<'END'
#!/usr/bin/env bash
text=$(<"$0.out")
if [ "$text" = HANG ]; then
  trap '' TERM
  while :; do sleep 1; done
fi
printf '%s\n' "$text"
exit "$(cat "$0.status" 2>/dev/null || echo 0)"
END
  chmod +x "$1"
}

# `nvidia-smi dmon` says that 5120 MiB are in use, ten times a second.
fake_gpu() {
  cat >"$work/path/nvidia-smi" <<'END'
#!/usr/bin/env bash
if [ "$1" != dmon ]; then
  echo "NVIDIA H200, 143771, 580.1, 700.00, 5, 16"
  exit
fi
printf '# gpu    pwr     fb   bar1\n# Idx      W     MB     MB\n'
while sleep 0.1; do echo '    0     79   5120      3'; done
END
  chmod +x "$work/path/nvidia-smi"
}

# A `strata` whose runs have the loss, slow path, state hash, bytes of scratch and seconds that this file says, by the words of its
# command line. Of the planned scratch 512 MiB are code of CUDA's libraries.
fake_strata() {
  cat >"$bundle/bin/strata" <<'END'
#!/usr/bin/env bash
words=" $* " loss=4.5 slow='' hash=a scratch=402653184 seconds=0 report=/dev/null
echo "$*" >>"$0.calls"
[ "$1" != doctor ] || words+="--json ${*: -1} "
report=${words#* --json }
report=${report%% *}
[ "$report" != - ] || report=/dev/stdout
while IFS='|' read -r pattern key value; do
  [[ $words != *"$pattern"* ]] || declare "$key=$value"
done <"$0.answers"
sleep "$seconds"
cat >"$report" <<JSON
{"loss": [9, $loss], "step_seconds": [1, 0.5, 0.5], "tokens_per_second": 32768, "precision": "bf16", "mfu": 0.4, "hfu": 0.4,
 "flops": {"model": 2.4725e14, "executed": 2.4725e14}, "machine": {"flops_per_second": 1e15}, "certificate": {"planned_seconds": 0.25},
 "memory": {"device": {"planned_peak_bytes": 4294967296, "measured_peak_bytes": 4294967296}},
 "traffic": {"h2d": {"planned_bytes": 1e9, "measured_bytes": 1e9, "busy_seconds": 0.02}}, "slow_paths": [$slow], "state_hash": "$hash",
 "scratch": {"measured_bytes": $scratch, "planned_bytes": 939524096, "parts": {"code of CUDA's libraries": 536870912, "kernels": 402653184}}}
JSON
END
  chmod +x "$bundle/bin/strata"
  printf '%s\n' "$@" >"$bundle/bin/strata.answers"
}

passing_test='[ RUN      ] Some.Test/cuda
[       OK ] Some.Test/cuda (1 ms)'

failing_tests() { # COUNT
  local test
  for ((test = 1; test <= $1; ++test)); do
    printf '[ RUN      ] Some.Test%d/cuda\n[  FAILED  ] Some.Test%d/cuda, where GetParam() = cuda (1 ms)\n' "$test" "$test"
  done
}

make_bundle() {
  local program
  cp -r "$source"/bench/{first,second,gpu,gpu_common,steps,records}.sh "$source/bench/json.awk" "$source/bench/runs" "$bundle/bench/"
  echo "0.1 (fake)" >"$bundle/VERSION"
  fake_gpu
  fake_strata
  for program in device_test parity_test execute_test; do fake "$bundle/bin/$program" <<<"$passing_test"; done
  fake "$bundle/bin/bench_ceilings" <<'END'
{"figure": "gemm_bf16", "median": 8e14, "best": 8e14, "unit": "FLOP/s", "what": "x"}
{"figure": "device_copy", "median": 4e12, "best": 4e12, "unit": "B/s", "what": "x"}
END
  fake "$bundle/bin/bench_kernels" <<<'{"benchmarks": [{"name": "norm/manual_time", "real_time": 0.1, "bytes/s": 3e12}]}'
  fake "$bundle/bin/bench_update" <<<'{"benchmarks": [{"rate_of_stream": 0.9}]}'
}

# As cmake/bundle.sh packs it.
pack_bundle() {
  mkdir "$bundle/xz"
  cp -L "$(command -v xz)" "$(ldd "$(command -v xz)" | awk '/liblzma/ { print $3 }')" "$bundle/xz/"
  tar -C "$bundle" -cf - bin | xz -0 >"$bundle/programs.tar.xz"
  rm -r "${bundle:?}/bin"
  tar -C "$work" -cf "$work/strata-bundle-0.1.tar" "${bundle##*/}"
  rm -r "$bundle"
}

# --- what is expected ----------------------------------------------------------------------------------------------------

run() { # SCRIPT ARGUMENT...
  bash "$@" >"$work/output" 2>&1
}

expect() { # PATTERN FILE
  grep -qE -- "$1" "$2" || fail "$(basename "$2") has nothing like: $1"$'\n'"$(cat "$2")"
}

expect_page() { # FILE: which is the end of the output
  local lines
  lines=$(wc -l <"$1")
  [ "$lines" -le 60 ] || fail "$1 has $lines lines"
  tail -n "$lines" "$work/output" | cmp - "$1" || fail "the page is not the end of the output"
}

expect_archive() { # FILE LOG
  grep -qx "logs/$2" <(tar -tzf "$1") || fail "$1 has no $2"
}

# processes: ids of those whose command line names this test's folder
processes() {
  local file words
  for file in /proc/[0-9]*/cmdline; do
    { words=$(<"$file"); } 2>/dev/null
    [[ $words != *"$work"* ]] || basename "${file%/cmdline}"
  done
}

# A killed process is there for a moment.
expect_no_process() {
  for _ in {1..20}; do
    [ -n "$(processes)" ] || return 0
    sleep 0.1
  done
  fail "processes are left: $(processes)"
}

# --- cases ---------------------------------------------------------------------------------------------------------------

# A GPU whose driver hangs: the deadline holds, and the logs are there.
hanging() {
  fake "$work/path/nvidia-smi" <<<HANG
  fake "$bundle/bin/device_test" <<<HANG
  fake "$bundle/bin/strata" <<<HANG
  local start=$SECONDS
  SECONDS_LEFT=18 run "$bundle/bench/first.sh" && fail "a hanging program is no success"
  [ $((SECONDS - start)) -le 18 ] || fail "it took $((SECONDS - start)) of 18 s"
  expect_page "$OUT/first.md"
  expect 'smoke: cut off by the time limit' "$OUT/first.md"
  expect 'torch: not run: the time was over' "$OUT/first.md"
  expect_archive "$OUT/logs.tar.gz" first.log
  expect_no_process
}

# What is there when the machine is taken away is whole.
killed() {
  fake "$bundle/bin/parity_test" <<<HANG
  bash "$bundle/bench/first.sh" smoke parity >"$work/output" 2>&1 &
  local script=$! process
  until [ -f "$OUT/logs.tar.gz" ] && compgen -G "$TMPDIR/strata-gpu.*/logs/tests-parity.log" >/dev/null; do sleep 0.1; done
  kill -KILL "$script"
  wait "$script" 2>/dev/null
  expect '^- done: smoke' "$OUT/first.md"
  expect '"name": "smoke"' "$OUT/first.json"
  expect_archive "$OUT/logs.tar.gz" tests-smoke.log
  for process in $(processes); do kill -KILL "$process"; done
}

# A packed bundle without a GPU: each step starts.
dry() {
  rm "$work/path/nvidia-smi"
  echo 'strata: this machine has no NVIDIA driver' >"$bundle/bin/device_test.out"
  echo 1 >"$bundle/bin/device_test.status"
  pack_bundle
  PATH=$(tr : '\n' <<<"$PATH" | while read -r folder; do [ -x "$folder/nvidia-smi" ] || printf '%s:' "$folder"; done) \
    PYTHON=no-python run "$source/bench/first.sh" --dry "$work/strata-bundle-0.1.tar" || fail "a dry run failed"
  expect_page "$OUT/first.md"
  expect 'smoke.*: started; what is left needs a GPU: strata: this machine has no NVIDIA driver' "$OUT/first.md"
  local step
  for step in smoke loss_cpu loss_gpu b15 timed again a8 quarter split kernels ceilings placement parity agree fp8 whole torch; do
    expect " s  $step: " "$work/output"
  done
}

figures() {
  fake_strata 'device.kind=cpu|loss|4.6' 'memory.device=1073741824|slow|"attention is slow"' 'precision=fp8|hash|b' \
    'precision=fp8|scratch|402653185' 'report.trace.path|seconds|1'
  fake "$bundle/bin/parity_test" <<<"$passing_test"$'\n'"$(failing_tests 9)"
  echo 1 >"$bundle/bin/parity_test.status"
  run "$bundle/bench/first.sh" && fail "a failing test is no success"
  local page=$OUT/first.md
  expect_page "$page"
  expect '^- parity: failed tests: 9' "$page"
  expect '^\| smoke \| 1 \| 0 \| 0 \|' "$page"
  expect '^\| parity \| 1 \| 9 \| 0 \|' "$page"
  expect '^- parity: Some.Test7/cuda$' "$page"
  expect '^- and 2 more$' "$page"
  # 2.4725e14 / 0.5 s of 989e12 and 8e14
  expect '^\| b15 \| 32768 \| 0.500 \| 0.500 \| 0.618 \| 0.400 \| 4.00 \| 5.00 \| .* 50.0 .* yes \|$' "$page"
  expect '^\| fp8 .* no: scratch.measured_bytes \|$' "$page"
  expect 'device memory besides plan and scratch, b15: 640 MiB, 512 MiB assumed' "$page"
  expect 'last loss, GPU beside CPU: no: 4.5 and 4.6, 2.2e-02 apart' "$page"
  expect 'products timed and looked up: yes' "$page"
  expect 'slow path of split quarter: attention is slow' "$page"
  expect 'device.product_table=.* --set memory.device=1073741824 --set optimizer.master=split' "$bundle/bin/strata.calls"
  expect '^- 0.750 of the ceiling: norm' "$page"
  expect_archive "$OUT/logs.tar.gz" runs-a8.json
  OUT=$work/right run "$bundle/bench/first.sh" loss_gpu || fail "a run by itself fails"
  OUT=$work/wrong run "$bundle/bench/first.sh" loss_cpu loss_gpu && fail "another loss than the CPU's is no failure"
  return 0
}

# The plan beside first.sh's steps, and what failed in it.
second() {
  fake "$bundle/bin/parity_test" <<<$'[ RUN      ] Parity.Hangs/cuda'
  echo 139 >"$bundle/bin/parity_test.status"
  echo 1 >"$bundle/bin/bench_kernels.status"
  run "$bundle/bench/first.sh" b15 a8 parity kernels && fail "a failing test is no success"
  fake "$bundle/bin/parity_test" <<<"$passing_test"
  export FIRST=$OUT/first.json OUT=$work/second
  run "$bundle/bench/second.sh" && fail "failing kernels are no success"
  local page=$OUT/second.md
  expect_page "$page"
  expect '^\| b15 \| 0.250 \| 0.500 \| 2.000 \|' "$page"
  expect '^\| parity, failed before \| 1 \| 0 \|' "$page"
  expect '^- kernels: failed' "$page"
  expect 'num_hidden_layers=26 --set memory.device=24GiB' "$bundle/bin/strata.calls"
  expect 'memory.nvme.path=' "$bundle/bin/strata.calls"
}

# gpu.sh: failing tests and slow paths fail a run, and logs outlive the script.
slow_paths() {
  export RESULTS=$work/results
  local table
  run "$bundle/bench/gpu.sh" tests || fail "passing tests fail"
  fake "$bundle/bin/device_test" <<<"$passing_test"$'\n'"$(failing_tests 2)"
  echo 1 >"$bundle/bin/device_test.status"
  run "$bundle/bench/gpu.sh" tests && fail "a failing test is no failure"
  fake_strata 'llama-3b|slow|"attention is slow"'
  run "$bundle/bench/gpu.sh" train && fail "a slow path of a resident run is no failure"
  table=$(echo "$RESULTS"/*.md)
  expect '^\| llama-3b .* attention is slow' "$table"
  expect '^\| device_test \| 1 \| 0 \| 2 \| .* \| Some.Test1/cuda Some.Test2/cuda \|' "$table"
  # shellcheck disable=SC2012  # their names are the script's own
  expect_archive "$(ls -t "$RESULTS"/*-logs-*.tar.gz | head -n 1)" train-llama-3b.json
  fake_strata 'precision=fp8|slow|"its operands are rounded and multiplied in bf16"'
  run "$bundle/bench/gpu.sh" choices && fail "products of FP8 in bf16 are no failure"
  expect 'fp8 met a slow path' "$work/output"
}

make_bundle
"$1"
