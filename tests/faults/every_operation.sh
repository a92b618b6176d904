#!/usr/bin/env bash
# Gives every single operation on the drive of a five-step run an error, no space, a short transfer and a flipped bit, one per run.
# Each run ends with the bits of a run without faults, or with one clear error. It then resumes from its checkpoint to the same bits.
#   tests/faults/every_operation.sh      needs build/ (./test.sh); some minutes; TMPDIR is on the drive to use
set -euo pipefail
cd "$(dirname "$0")/../.."
report=$(mktemp)
trap 'rm -f "$report"' EXIT
STRATA_TEST_EVERY_FAULT=1 build/tests/execute_test --gtest_filter=NvmeFaults.OfAnyOperationLoseNothing --gtest_brief=1 \
  --gtest_output="json:$report"
grep -E '"(operations|failed_runs|wrong_bits_never_read|time)"' "$report" | sort -u
