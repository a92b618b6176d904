#!/usr/bin/env bash
# Builds everything with the address and undefined-behaviour sanitizers, then with the thread sanitizer, and runs all tests under each.
# Prints a line per preset; the logs stay in build-asan/ and build-tsan/.
#   tests/sanitize.sh [PRESET... [-- more arguments of ctest]]      without a preset: asan tsan; an hour or more on two cores
set -euo pipefail
# shellcheck source=cmake/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cmake/setup.sh"
cd "$root"

presets=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  presets+=("$1")
  shift
done
[ $# -eq 0 ] || shift
[ "${#presets[@]}" -gt 0 ] || presets=(asan tsan)

install_packages cmake/packages.txt cmake/test-packages.txt
install_readers
failed=0
for preset in "${presets[@]}"; do
  say "Building build-$preset/"
  quietly cmake --preset "$preset"
  quietly cmake --build --preset "$preset" --parallel "$(parallel_jobs)"
  log=build-$preset/sanitize.log
  started=$SECONDS
  ctest --preset "$preset" --parallel "$(parallel_jobs)" "$@" >"$log" 2>&1 || failed=1
  reports=$(grep -cE 'ERROR: AddressSanitizer|ERROR: LeakSanitizer|runtime error:|WARNING: ThreadSanitizer' "$log" || true)
  printf '| %s | %s | %s | %s | %s reports | %s s | %s |\n' "$(date +%F)" "$(git rev-parse --short HEAD)" "$preset" \
    "$(grep -E '^[0-9]+% tests passed' "$log" || echo "no summary: see $log")" "$reports" $((SECONDS - started)) \
    "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
done
exit "$failed"
