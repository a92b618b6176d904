#!/usr/bin/env bash
# Builds the fuzz targets and runs them, each for SECONDS, on the committed corpus and what it grows to:
# tests/fuzz/run.sh [--built] SECONDS [TARGET...]. 0 seconds: only the committed inputs. --built: they are built already.
# build.sh says which variables choose the folder and how it is built.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${STRATA_FUZZ_BUILD:-$here/../../build-fuzz}
built=no
[ "${1-}" != --built ] || { built=yes && shift; }
seconds=${1:?usage: run.sh [--built] SECONDS [TARGET...]}
shift
[ "$built" = yes ] || "$here/build.sh"
targets=("$@")
[ $# -gt 0 ] || for source in "$here"/*_fuzz.cpp; do targets+=("$(basename "$source" _fuzz.cpp)"); done

for target in "${targets[@]}"; do
  grown=$build/corpus/$target
  mkdir -p "$grown" "$here/corpus/$target"
  duration=(-max_total_time="$seconds")
  [ "$seconds" -gt 0 ] || duration=(-runs=0)
  # An input may take 10 seconds and 1 GiB at most; what fails is left as build-fuzz/TARGET-crash-….
  STRATA_FUZZ_TARGET=$target "$build/fuzz_targets" "${duration[@]}" -timeout=10 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$build/$target-" "$grown" "$here/corpus/$target" >"$build/$target.log" 2>&1 || {
    tail -n 60 "$build/$target.log" >&2
    exit 1
  }
  printf '%-12s %s executions, %s inputs in the corpus\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$target.log")" "$(find "$grown" "$here/corpus/$target" -type f | wc -l)"
done
