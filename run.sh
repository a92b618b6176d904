#!/usr/bin/env bash
# Installs what is missing, builds strata and trains: ./run.sh [RUN.yaml] [more arguments of strata train]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/cmake/setup.sh"

run_file=$root/examples/quickstart.yaml
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  run_file=$1
  shift
fi
build strata
exec "$root/build/strata" train "$run_file" "$@"
