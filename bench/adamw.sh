#!/usr/bin/env bash
# AdamW of strata and of PyTorch, alternating: medians of parameters per second, and the median of the rounds' ratios.
# Then strata's in every format of the state.
#   bench/adamw.sh [ROUNDS [PARAMETERS [THREADS [cpu]]]]        needs build/ (./test.sh) and .venv/ (tests/parity/setup.sh)
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
build=${BUILD:-build}
python=${PYTHON:-.venv/bin/python}
parameters=${2:-$((128 * 1024 * 1024))}
threads=${3:-2}
clock=${4:-wall} # cpu: per CPU second, on a machine that is busy with other things
rate=parameters_per_second
if [ "$clock" = cpu ]; then rate=parameters_per_cpu_second; fi
if [ "${STRATA_VECTOR_TARGET:-}" = avx2 ]; then export ATEN_CPU_CAPABILITY=avx2; fi

median() { sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }
results=$(mktemp)
trap 'rm -f "$results"' EXIT

for ((round = 1; round <= rounds; ++round)); do
  strata=$("$build/bench/bench_update" --benchmark_format=json --benchmark_filter=master_fp32/moments_fp32 "$parameters" "$threads" "$clock" 2>/dev/null)
  value() { awk -F'[:,]' -v key="\"$1\"" '$1 ~ key { print $2 + 0 }' <<<"$strata"; }
  pytorch=$("$python" bench/pytorch_adamw.py --parameters "$parameters" --threads "$threads" |
    sed "s/.*\"$rate\": \([0-9.e+]*\).*/\1/")
  printf '%s %s %s\n' "$(value adamw_parameters_per_second)" "$(value rate_of_stream)" "$pytorch" |
    tee -a "$results" |
    awk -v round="$round" '{ printf "round %d: strata %.3g/s (%.2f of a bare stream), PyTorch %.3g/s, ratio %.2f\n",
                             round, $1, $2, $3, $1 / $3 }'
done
printf 'median: strata %.3g/s (%.2f of a bare stream), PyTorch %.3g/s, ratio %.2f\n' \
  "$(awk '{ print $1 }' "$results" | median)" "$(awk '{ print $2 }' "$results" | median)" \
  "$(awk '{ print $3 }' "$results" | median)" "$(awk '{ print $1 / $3 }' "$results" | median)"
"$build/bench/bench_update" --benchmark_format=json "$parameters" "$threads" "$clock" 2>/dev/null |
  awk -F'[:,]' '$1 ~ /"name"/ { split($2, part, "/"); name = part[2] ", " part[3] }
                $1 ~ /"adamw_parameters_per_second"/ { rate = $2 }
                $1 ~ /"rate_of_stream"/ { printf "%s: %.3g/s (%.2f of a bare stream)\n", name, rate, $2 }'
