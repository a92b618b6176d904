#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests: ./test.sh [more arguments of ctest]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/cmake/setup.sh"

build all
cd "$root"
# Only what failed, the summary, and once per reason what was skipped.
passed=0
ctest --preset release --parallel "$(parallel_jobs)" "$@" |
  sed -E '/^ +Start +[0-9]+:/d; /\.+ +Passed +[0-9.]+ sec$/d; /\*\*\*Skipped +[0-9.]+ sec$/d; /^The following tests did not run:/,/^$/d' ||
  passed=$?
awk '/: Skipped$/ { getline; reasons[$0]++ } END { for (reason in reasons) print reasons[reason], "skipped:", reason }' \
  build/Testing/Temporary/LastTest.log
exit "$passed"
