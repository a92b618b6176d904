#!/usr/bin/env bash
# Runs the collective tests on processes: run.sh PROGRAM RANKS TRANSPORT
# TRANSPORT: shared (memory), or tcp, where ranks also read no other's memory. The cases of failures end a launch, so each has its own.
set -euo pipefail
program=$1 ranks=$2 transport=$3

# Containers run as root, and have fewer cores than ranks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# With the address sanitizer: Open MPI leaves memory behind, from plugins that no suppression can name any more.
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
options=(-n "$ranks" --oversubscribe --mca mpi_yield_when_idle 1)
ways=()
[ "$transport" = shared ] || { options+=(--mca btl "$transport,self") && ways=(--messages); }

launch() { # WATCHDOG_SECONDS FILTER
  mpirun "${options[@]}" "$program" "$1" "${ways[@]}" --gtest_filter="$2"
}

launch 30 '-*Failure.*:ARankAtWork.*'
launch 0.5 'ARankAtWork.*'
failures=$("$program" 30 --gtest_list_tests --gtest_filter='*Failure.*' | sed -n 's|^  \([A-Za-z]*\)/.*|\1|p')
[ -n "$failures" ]
for failure in $failures; do
  launch 0.5 "*Failure.$failure/*"
done

# The launch must fail, and no rank get so far as to say that a call returned.
if stopped=$(launch 0.5 'StoppedRankFailure.*' 2>&1) || grep -q 'a call returned' <<< "$stopped" ||
  ! grep -q 'ends all ranks at once' <<< "$stopped"; then
  printf '%s\n' "$stopped"
  exit 1
fi
