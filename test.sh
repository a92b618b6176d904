#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests: ./test.sh [more arguments of ctest]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/cmake/setup.sh"

build all
cd "$root"
# Only what did not pass, and the summary.
ctest --preset release --parallel "$(parallel_jobs)" "$@" | sed -E '/^ +Start +[0-9]+:/d; /\.+ +Passed +[0-9.]+ sec$/d'
