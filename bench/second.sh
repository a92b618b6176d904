#!/usr/bin/env bash
# The five minutes after bench/first.sh: plans beside what was measured, larger runs, and what failed. Needs what first.sh needs.
#   bench/second.sh [--dry] [BUNDLE] [STEP...]
# Steps, all of them in this order if none is named, each within its limit:
#   plan_b15  doctor --profile of b15, and its plan by this profile beside the measured step
#   plan_a8   doctor --profile of a8, and the plans of a8, quarter and split beside the measured steps
#   blocks26  26 blocks of Llama 8B in 24 GiB of device memory
#   drive     Llama 1.5B in 8 GiB of device memory, 8 GiB of host memory and a drive
#   failed_tests   the tests that failed
#   failed_steps   the steps of first.sh that failed; results in OUT/again
# Programs: as bench/gpu.sh finds them.
# Results, in OUT, kept up to date after each step: second.md (also the end of the output), second.json, logs.tar.gz.
# --dry needs no GPU: every step starts, and says what it could not do without one.
# Variables: those of bench/first.sh, and FIRST (default: bench/history/first/first.json), the results of first.sh. OUT is
# bench/history/second by default, and SECONDS_LEFT is 280.
# shellcheck disable=SC2317  # steps are called by name
set -uo pipefail
# shellcheck source=bench/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

results_name=second
all_steps=(plan_b15 plan_a8 blocks26 drive failed_tests failed_steps)
limits=([plan_b15]=50 [plan_a8]=70 [blocks26]=110 [drive]=90 [failed_tests]=90 [failed_steps]=200)
total_seconds=${SECONDS_LEFT:-280}
first=${FIRST:-$script_folder/history/first/first.json}

before_steps() {
  : >"$work/first"
  [ ! -f "$first" ] || json_as_records "$first" >"$work/first"
}

# of_first COMMAND...: with the records of first.sh
of_first() { records=$work/first "$@"; }

# --- steps ---------------------------------------------------------------------------------------------------------------

# plans_by RUN NAME...: a profile with the kernels of RUN, and the plans of all these runs by it
plans_by() {
  local profile=$logs/$1-profile.json log settings status run
  log=$(log_of doctor "$1")
  read -ra settings < <(of_first run_of "$1" | tr '\n' ' ')
  ours limited "$strata" doctor "$source_folder/bench/runs/${settings[0]}.yaml" --set "data.path=$text" "${settings[@]:1}" \
    --profile "$profile" >"$log" 2>&1
  status=$?
  if [ ! -s "$profile" ]; then
    step_note=$(why_failed "$status" "$log")
    return "$status"
  fi
  for run; do plan_beside "$run" "$profile"; done
}

plan_beside() { # RUN PROFILE
  local settings planned measured
  read -ra settings < <(of_first run_of "$1" | tr '\n' ' ')
  planned=$(plan "${settings[0]}" --machine "$2" --set "data.path=$text" "${settings[@]:1}" | flatten | of_path certificate.planned_seconds)
  measured=$(of_first field runs "$1" step_seconds)
  record plans "$1" "planned=$planned" "measured=$measured" "ratio=$(quotient "$measured" "$planned")"
}

step_plan_b15() { plans_by b15; }
step_plan_a8() { plans_by a8 quarter split; }
step_blocks26() { train blocks26; }
step_drive() {
  local status
  mkdir -p "$(drive_folder)"
  train drive
  status=$?
  rm -rf "$(drive_folder)"
  return "$status"
}

step_failed_tests() {
  local tests program failures
  while IFS=$'\t' read -r tests failures program; do
    run_tests tests "$tests, failed before" "$program" "${failures// /:}"
  done < <(of_first values_of tests failures program)
}

step_failed_steps() {
  local again
  mapfile -t again < <(of_first values_of steps note | awk -F'\t' '$2 ~ /^(failed|cut off)/ { print $1 }' | grep -vxE 'smoke|placement|parity|agree')
  [ ${#again[@]} -gt 0 ] || return 0
  OUT=$out/again SECONDS_LEFT=$(seconds_left) bash "$source_folder/bench/first.sh" "${again[@]}" >"$logs/again.log" 2>&1
}

# --- the page ------------------------------------------------------------------------------------------------------------

page_body() {
  section "Steps, planned and measured" "$(table plans 'run|name' 'planned s|planned|%.3f' 'measured s|measured|%.3f' 'measured / planned|ratio|%.3f')"
  section Training "$(runs_table; slow_lines 5)"
  section Tests "$(tests_table; failed_tests 8)"
  [ ! -f "$out/again/first.md" ] || section "What failed, again" "$(sed -n '/^## Steps/,$p' "$out/again/first.md" | grep -v '^#' | head -n 25)"
}

run_steps "$@"
