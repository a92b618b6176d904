#!/usr/bin/env bash
# Installs what is missing, builds and tests: ./test.sh [fast] [more arguments of ctest]
# fast: builds and runs only the tests with the label `unit`, which take less than a minute on two cores. Without it: everything.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/cmake/setup.sh"

options=()
preset=release
if [ "${1-}" = fast ]; then
  shift
  preset=unit
  # CUDA's kernels take minutes to compile.
  [ -n "$(configured_cuda)" ] || options=(-DSTRATA_CUDA=DRIVER)
  build unit_tests "${options[@]}"
else
  [ "$(configured_cuda)" != DRIVER ] || options=(-DSTRATA_CUDA=AUTO)  # run.sh has left out what this machine cannot run
  install_packages "$root/cmake/packages.txt" "$root/cmake/test-packages.txt"
  build all "${options[@]}"
  sync -f "$root/build" &  # tests of drives would wait for what the build has written
  install_readers
  wait
fi
cd "$root"
# ctest's own log is overwritten by every other ctest in the folder.
lines=build/tests.log outputs=build/tests.xml
rm -f "$outputs"
# shellcheck disable=SC2317  # tell_progress calls it
launches_ended() { printf '%s launches of tests have ended\n' "$(grep -cE '^ *[0-9]+/[0-9]+ Test +#[0-9]+:' "$lines")"; }
# Only what failed, the summary with the number of cases, and once per reason what was skipped.
passed=0
tell_progress launches_ended ctest --preset "$preset" --parallel "$(parallel_jobs)" --test-output-size-passed 100000000 --test-output-size-failed 100000000 \
  --output-junit "$root/$outputs" "$@" | tee "$lines" | awk -f cmake/cases.awk || passed=$?
[ ! -f "$outputs" ] || awk '/\[==========\] [0-9]+ tests? from .* ran\./ { sub(/.*\[==========\] /, ""); cases += $1; launches++ }
     /: Skipped$/ { getline; gsub(/&lt;/, "<"); gsub(/&gt;/, ">"); gsub(/&amp;/, "\\&"); reasons[$0]++ }
     END { print cases + 0, "cases in", launches + 0, "launches"
           for (reason in reasons) print reasons[reason], "skipped:", reason }' "$outputs"
exit "$passed"
