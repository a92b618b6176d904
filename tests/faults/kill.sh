#!/usr/bin/env bash
# Kills training at random instants, from the first one of the process to its last, with state on drives and a checkpoint after every
# step. Each run must go on to the bits of one that was never killed.
#   tests/faults/kill.sh [KILLS [FOLDER]]      needs build/ (./test.sh); FOLDER is on the drive to use
set -euo pipefail
cd "$(dirname "$0")/../.."
kills=${1:-200}
. tests/faults/training.sh "${2:-${TMPDIR:-/tmp}}"

cat >>run.yaml <<'EOF'
train: {steps: 12, batch: 4, microbatch: 2, seed: 3, precision: bf16}
optimizer: {lr: 1e-2}
memory: {device: 128KiB, host: 64MiB, nvme: {path: .}, placement: {optimizer_state: nvme, parameters: nvme}}
checkpoint: {path: out, every: 1}
EOF

hash_of() { sed -n 's/^state hash //p'; }
run_whole hash_of "$strata" train run.yaml

for ((kill = 1; kill <= kills; ++kill)); do
  rm -rf out
  "$strata" train run.yaml >/dev/null 2>&1 &
  sleep_at_random 0 "$length"
  kill -KILL $! 2>/dev/null || true
  wait $! 2>/dev/null || true
  mkdir -p out
  saved=$(find out -maxdepth 1 -name 'step-*' | sort | tail -n 1)
  found=$("$strata" train run.yaml 2>log | hash_of) || true
  if [ "$found" != "$expected" ]; then
    echo "kill $kill, after ${saved:-no checkpoint}: ${found:-no hash}, not $expected" >&2
    tail -n 3 log >&2
    exit 1
  fi
done
echo "$kills kills within $length ms: every run went on to $expected"
