#!/usr/bin/env bash
# Kills training at random instants, from the first one of the process to its last, with state on drives and a checkpoint after every
# step. Each run must go on to the bits of one that was never killed.
#   tests/faults/kill.sh [KILLS [FOLDER]]      needs build/ (./test.sh); FOLDER is on the drive to use
set -euo pipefail
cd "$(dirname "$0")/../.."
kills=${1:-200}
strata=$PWD/build/strata
folder=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/strata-kill-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"

for ((line = 0; line < 400; ++line)); do echo "line $((line * line)) of a small text, $((line % 7)) words long"; done >corpus.txt
cat >run.yaml <<'EOF'
model:
  architecture: llama
  config: {num_hidden_layers: 3, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 48, vocab_size: 256}
data: {path: corpus.txt, sequence_length: 24}
train: {steps: 12, batch: 4, microbatch: 2, seed: 3}
optimizer: {lr: 1e-2}
memory: {device: 128KiB, host: 64MiB, nvme: {path: .}, placement: {optimizer_state: nvme, parameters: nvme}}
checkpoint: {path: out, every: 1}
EOF

hash_of() { sed -n 's/^state hash //p'; }
milliseconds() { date +%s%3N; }

start=$(milliseconds)
expected=$("$strata" train run.yaml 2>/dev/null | hash_of)
length=$(($(milliseconds) - start))
[ -n "$expected" ] || { echo "the run that nobody kills failed" >&2; exit 1; }

for ((kill = 1; kill <= kills; ++kill)); do
  rm -rf out
  "$strata" train run.yaml >/dev/null 2>&1 &
  sleep "$(awk -v most="$length" -v random="$RANDOM" 'BEGIN { print most * random / 32768 / 1000 }')"
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
