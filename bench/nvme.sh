#!/usr/bin/env bash
# The NVMe store against fio on the same disk, in turn: medians of both, and the median of the rounds' ratios. fio runs with
# the block size and depth that were best for it in a sweep on this disk.
#   bench/nvme.sh FOLDER [ROUNDS]        needs build/bench/bench_nvme, fio, 4.1 GiB of free space; JSON lines on standard output
# SECONDS_EACH (3), TRANSFER_MIB (256) and ENGINE (io_uring or threads) are taken from the environment.
# shellcheck disable=SC2016  # awk programs are full of dollars
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?usage: bench/nvme.sh FOLDER [ROUNDS]}
rounds=${2:-7}
build=${BUILD:-build}
seconds=${SECONDS_EACH:-3}
transfer=${TRANSFER_MIB:-256}
engine=${ENGINE:-io_uring}
mebibytes=2048

say() { printf '%s\n' "$*" >&2; }
median() { sort -g | awk '{ value[NR] = $1 } END { print (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'; }

results=$(mktemp)
file=$(mktemp "$folder/fio-XXXXXX")
trap 'rm -f "$results" "$file"' EXIT

# fio_run MODE BLOCK DEPTH SECONDS: bytes per second, and CPU time of one core in percent. Mixed is a reader and a writer, each with
# half of the file and half of the depth. It has what the store has. Its file was just written, since a disk may be faster with
# new data. Its memory is huge pages, which spare time per page. It does no work on what it writes.
fio_run() {
  local mode=$1 block=$2 depth=$3 jobs
  dd if=/dev/zero of="$file" bs=1M count="$mebibytes" oflag=direct conv=notrunc status=none
  local common=(--filename="$file" --ioengine=io_uring --direct=1 --bs="$block" --time_based --runtime="$4" --scramble_buffers=0
    --minimal)
  if [ "$mode" = mixed ]; then
    local half=$((mebibytes / 2))
    jobs=(--name=r --rw=read --size="${half}m" --iodepth="$((depth / 2))"
      --name=w --rw=write --size="${half}m" --offset="${half}m" --iodepth="$((depth / 2))")
  else
    jobs=(--name=x --rw="$mode" --size="${mebibytes}m" --iodepth="$depth")
  fi
  # Fields of terse version 3: read KiB/s, write KiB/s, user and system time in percent, a line per job.
  GLIBC_TUNABLES=glibc.malloc.hugetlb=1 fio "${common[@]}" "${jobs[@]}" 2>/dev/null |
    awk -F';' '{ rate += ($7 + $48) * 1024; cpu += $88 + $89 } END { print rate, cpu }'
}

# best_of MODE: "BLOCK DEPTH" with which fio is fastest
best_of() {
  local block depth
  for block in 256k 1m 4m; do
    for depth in 4 16 32; do
      printf '%s %s %s\n' "$(fio_run "$1" "$block" "$depth" 2)" "$block" "$depth"
    done
  done | tee /dev/stderr | sort -gr | awk 'NR == 1 { print $3, $4 }'
}

# store_run MODE: bytes per second, and CPU time of one core in percent
store_run() {
  "$build/bench/bench_nvme" "$1" "$folder" "$seconds" "$transfer" "$engine" |
    sed 's/.*"bytes_per_second": \([0-9.e+]*\).*"cpu_share": \([0-9.]*\).*/\1 \2/' | awk '{ print $1, 100 * $2 }'
}

table="| | store GB/s | fio GB/s | fio's block, depth | store / fio, median (min to max) | store: % of a core | fio: % of a core |
|---|---|---|---|---|---|---|"
for mode in read write mixed; do
  say "fio, $mode: bytes/s, CPU %, block, depth"
  read -r block depth < <(best_of "$mode")
  : >"$results"
  for ((round = 1; round <= rounds; ++round)); do
    # Who begins changes from round to round: a disk that tires would favour the first.
    if ((round % 2 == 0)); then
      fio=$(fio_run "$mode" "$block" "$depth" "$seconds")
      store=$(store_run "$mode")
    else
      store=$(store_run "$mode")
      fio=$(fio_run "$mode" "$block" "$depth" "$seconds")
    fi
    printf '%s %s\n' "$store" "$fio" | tee -a "$results" | awk -v mode="$mode" -v round="$round" \
      '{ printf "{\"figure\": \"nvme_%s\", \"round\": %d, \"store_bytes_per_second\": %.5g, \"store_cpu_percent\": %.3g, ", mode, round, $1, $2
         printf "\"fio_bytes_per_second\": %.5g, \"fio_cpu_percent\": %.3g, \"ratio\": %.3f}\n", $3, $4, $1 / $3 }'
  done
  column() { awk "{ print $1 }" "$results"; }
  table+=$(printf '\n| %s | %.2f | %.2f | %s, %s | %.2f (%.2f to %.2f) | %.1f | %.1f |' "$mode" \
    "$(column '$1 / 1e9' | median)" "$(column '$3 / 1e9' | median)" "$block" "$depth" \
    "$(column '$1 / $3' | median)" "$(column '$1 / $3' | sort -g | head -n 1)" "$(column '$1 / $3' | sort -g | tail -n 1)" \
    "$(column '$2' | median)" "$(column '$4' | median)")
done
printf '%s\n' "$table"
