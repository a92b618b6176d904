#!/usr/bin/env bash
# Runs the steps of a Dockerfile in fresh roots, and then the image as a user would. docs/contributing/packaging.md has more.
#   tests/install/containers.sh cpu|cuda [arguments of docker_steps.py]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
image=${1?cpu or cuda}
shift
quickstart="train /usr/local/share/strata/examples/quickstart.yaml --set train.steps=2 --set optimizer.schedule.warmup=1"
exec "$root/tests/install/docker_steps.py" "$root/docker/$image/Dockerfile" \
  --run="--version" --run="doctor" --run="$quickstart" \
  --program "mpirun --oversubscribe --bind-to none -n 2 strata $quickstart --set checkpoint.path=ranks --set train.microbatch=2" \
  --program "sh -c '! command -v g++ && test \$(id --user --name) = strata && test -w /work'" \
  "$@"
