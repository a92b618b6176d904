#!/usr/bin/env bash
# Builds the fuzz targets with clang into build-fuzz/. STRATA_FUZZ_BUILD names another folder, STRATA_FUZZ_OPTIMIZATION another level than
# -O1, STRATA_FUZZ_JOBS another number of compilers than there are cores.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${STRATA_FUZZ_BUILD:-$here/../../build-fuzz}

logged() {
  "$@" >"$build/log" 2>&1 || { cat "$build/log" >&2; exit 1; }
}
mkdir -p "$build"
# Each time, since a changed include may need other sources.
logged cmake -S "$here" -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DSTRATA_FUZZ_OPTIMIZATION="${STRATA_FUZZ_OPTIMIZATION:--O1}"
logged cmake --build "$build" --parallel "${STRATA_FUZZ_JOBS:-$(nproc)}"
