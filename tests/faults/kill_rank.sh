#!/usr/bin/env bash
# Kills one of four ranks at random instants while they train sharded, with state on drives and a checkpoint after every second step. All
# processes must be gone within ten seconds, the user must read which rank it was, and three ranks must go on to the losses of the run
# that nobody killed.
#   tests/faults/kill_rank.sh [KILLS [FOLDER]]      needs build/ (./test.sh); FOLDER is on the drive to use
set -euo pipefail
cd "$(dirname "$0")/../.."
kills=${1:-20}
. tests/faults/training.sh "${2:-${TMPDIR:-/tmp}}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cat >>run.yaml <<'EOF'
train: {steps: 120, batch: 12, microbatch: 1, seed: 3, precision: fp32, threads: 1}
optimizer: {lr: 3e-4}
memory: {device: 256KiB, host: 64MiB, nvme: {path: .}, placement: {optimizer_state: nvme, parameters: nvme}}
checkpoint: {path: out, every: 2}
EOF

ranks() { mpirun --oversubscribe -n "$@"; }
last_loss() { sed -n 's/^loss .* -> \([0-9.]*\) over.*/\1/p'; }
run_whole last_loss ranks 4 "$strata" train run.yaml

longest=0
for ((kill = 1; kill <= kills;)); do
  rm -rf out
  mpirun --oversubscribe -n 4 "$strata" train run.yaml >/dev/null 2>log &
  launcher=$!
  sleep_at_random 300 $((length + 300))  # ranks exist by then
  mapfile -t processes < <(pgrep -P "$launcher" || true)
  if [ "${#processes[@]}" -lt 4 ]; then  # it has ended, or not begun
    wait "$launcher" || true
    continue
  fi
  rank=$((RANDOM % 4))
  killed=$(milliseconds)
  kill -KILL "${processes[$rank]}" 2>/dev/null || true
  status=0
  wait "$launcher" || status=$?
  while pgrep -f "$strata train run.yaml" >/dev/null && [ $(($(milliseconds) - killed)) -lt 10000 ]; do sleep 0.05; done
  took=$(($(milliseconds) - killed))
  longest=$((took > longest ? took : longest))
  if pgrep -f "$strata train run.yaml" >/dev/null; then
    echo "kill $kill: ranks were left after 10 s" >&2
    exit 1
  fi
  if [ "$status" -ne 0 ] && ! grep -q "rank $rank .*signal 9" log; then
    echo "kill $kill: nobody said that rank $rank was killed" >&2
    cat log >&2
    exit 1
  fi
  found=$(ranks 3 "$strata" train run.yaml 2>log | last_loss) || true
  # Where the last step was saved before the kill, nothing is left to do.
  if [ -n "$found" ] && ! awk -v a="$found" -v b="$expected" 'BEGIN { exit !((a - b) ^ 2 <= (1e-4 * b) ^ 2) }'; then
    echo "kill $kill: three ranks went on to a loss of $found, not $expected" >&2
    exit 1
  fi
  if [ -z "$found" ] && ! grep -q "step 120" log; then
    echo "kill $kill: three ranks did not go on" >&2
    tail -n 5 log >&2
    exit 1
  fi
  kill=$((kill + 1))
done
echo "$kills kills of one of four ranks: all processes were gone within $longest ms, three ranks went on to a loss of $expected"
