#!/usr/bin/env bash
# Trains on four ranks, and resumes from the checkpoint in the middle of that run on other numbers of ranks. A table shows how far their
# losses are from those of the run that never stopped, and whether they end with its state.
#   bench/reshard.sh [RANKS...]        needs build/ (./test.sh) and mpirun; 1 2 3 4 8 where no numbers are given
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 1 2 3 4 8
build=${BUILD:-build}
mkdir -p out/drive
folder=$(mktemp -d out/reshard-XXXXXX)
trap 'rm -rf "$folder"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# train_on RANKS NAME: with the checkpoints in NAME; its report as lines "path<TAB>value" in NAME.report
train_on() {
  if ! mpirun --oversubscribe -n "$1" "$build/strata" train bench/runs/llama-reshard.yaml --set checkpoint.path="$folder/$2" \
    --json "$folder/$2.json" >"$folder/log" 2>&1; then
    tail -n 5 "$folder/log" >&2
    exit 1
  fi
  awk -f bench/json.awk <"$folder/$2.json" >"$folder/$2.report"
}

train_on 4 whole
printf '| ranks | steps | largest relative difference of the loss | same state |\n|---|---|---|---|\n'
for ranks; do
  mkdir "$folder/on-$ranks"
  cp -r "$folder/whole/step-00000010" "$folder/on-$ranks/"
  train_on "$ranks" "on-$ranks"
  # The steps of the second report are the last ones of the first.
  awk -F'\t' -v ranks="$ranks" '
    $1 ~ /^loss\./ { loss[FILENAME, count[FILENAME]++] = $2 }
    $1 == "state_hash" { hash[FILENAME] = $2 }
    END {
      whole = ARGV[1]; part = ARGV[2]
      for (i = 0; i < count[part]; ++i) {
        expected = loss[whole, count[whole] - count[part] + i]
        difference = (loss[part, i] - expected) / expected
        if (difference < 0) difference = -difference
        if (difference > largest) largest = difference
      }
      printf "| %d | %d | %.2g | %s |\n", ranks, count[part], largest, hash[part] == hash[whole] ? "yes" : "no"
    }' "$folder/whole.report" "$folder/on-$ranks.report"
done
