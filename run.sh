#!/usr/bin/env bash
# Installs what is missing, builds strata and trains: ./run.sh [RUN.yaml] [more arguments of strata train]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/cmake/setup.sh"

options=()
run_file=$root/examples/quickstart.yaml
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  run_file=$1
  shift
fi
# Only what training on this machine needs: CUDA's kernels take minutes to compile. test.sh builds all.
if [ -z "$(configured_cuda)" ]; then
  options=(-DSTRATA_CUDA=DRIVER)
  ! has_cuda_toolkit || has_nvidia_driver ||
    say "This machine has a CUDA toolkit but no NVIDIA driver: build/strata is built without CUDA; ./test.sh adds it"
fi
build strata "${options[@]}"
exec "$root/build/strata" train "$run_file" "$@"
