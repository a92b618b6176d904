# shellcheck shell=bash
# Sourced by bench/first.sh and bench/second.sh: steps within one deadline, whose results are on disk after each of them.
# shellcheck source=bench/gpu_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/gpu_common.sh"

# The caller sets these, defines step_NAME for each step and page_body, and calls run_steps.
results_name=                # of the results
all_steps=()
declare -A limits=() # seconds of each step
total_seconds=0

page_lines=60
reserve=6  # seconds for the last archive and page
monitor=
archive=
out=

parse_arguments() {
  steps=()
  local argument
  for argument; do
    case $argument in
      --dry) dry=1 ;;
      *.tar) archive=$argument ;;
      *)
        [[ " ${all_steps[*]} " == *" $argument "* ]] || give_up "no step $argument; steps: ${all_steps[*]}"
        steps+=("$argument")
        ;;
    esac
  done
  [ ${#steps[@]} -gt 0 ] || steps=("${all_steps[@]}")
}

total_left() { echo $((total_seconds - reserve - SECONDS)); }

least() { echo $(($1 < $2 ? $1 : $2)); }

progress() { say "$(printf '%4d s  %s' "$SECONDS" "$*")" | tee -a "$logs/$results_name.log"; }

prepare() {
  local folder=${OUT:-$script_folder/history/$results_name}
  [ "$dry" = 0 ] || folder=${OUT:-$work/results}
  mkdir -p "$folder" || give_up "$folder cannot be made"
  out=$folder
  host_gib=${HOST_MEMORY:-100}
  date=$(date -u +%F)
  if [ "$dry" = 1 ]; then gpu="no GPU"; else gpu="unknown GPU"; fi
  ask_gpu "$(least 20 $(($(total_left) / 4)))" || progress "nvidia-smi finds no GPU, or hangs"
  start_monitor
  log_machine
  [ ! -f "$out/$results_name.json" ] || [ "$dry" = 1 ] || json_as_records "$out/$results_name.json" >"$records"
  [ -z "$archive" ] || unpack_bundle "$archive"
  find_programs
  describe_machine
  make_text
  progress "Strata $version on $gpu; results go to $out"
  [ -z "$absent_libraries" ] || progress "shared libraries are missing: $absent_libraries"
}

# The caller may define its own.
before_steps() { :; }
check_all() { :; }  # makes records of several others

# Power, use, clocks, memory and PCIe traffic once a second.
start_monitor() {
  command -v nvidia-smi >/dev/null || return 0
  timeout --kill-after=2 "$(($(total_left) > 1 ? $(total_left) : 1))" nvidia-smi dmon -s pucmt -d 1 >"$logs/dmon.log" 2>&1 </dev/null &
  monitor=$!
  disown "$monitor"
}

at_end() {
  [ -z "$monitor" ] || kill -KILL -- "-$monitor" 2>/dev/null
  [ -z "$out" ] || archive_logs "$out/logs.tar.gz"
}

# run_step NAME: within its limit and what is left; its results are on disk then
run_step() {
  local step=$1 left start=$SECONDS status
  left=$(total_left)
  if [ "$left" -lt 3 ]; then
    record steps "$step" "note=not run: the time was over"
    return
  fi
  deadline=$((SECONDS + $(least "${limits[$step]}" "$left"))) step_note=
  "step_$step"
  status=$?
  [ -n "$step_note" ] || step_note=$(note_of "$step")
  [ -n "$step_note" ] || [ "$status" -eq 0 ] || step_note="failed ($status)"
  record steps "$step" "seconds=$((SECONDS - start))" "note=$step_note"
  progress "$step: $((SECONDS - start)) s${step_note:+, $step_note}" | cut -c 1-240
  write_results
  archive_logs "$out/logs.tar.gz"
}

# note_of STEP: that of its record
note_of() {
  awk -F'\t' -v name="name=$1" -v program="name=bench_$1" '
    $1 != "part=steps" && ($2 == name || $2 == program) { for (i = 3; i <= NF; ++i) if ($i ~ /^note=/) { print substr($i, 6); exit } }' "$records"
}

# values_of PART KEY...: lines "NAME<TAB>values" of the records that have the first key
values_of() {
  awk -F'\t' -v OFS='\t' -v part="part=$1" -v keys="${*:2}" '
    $1 == part {
      split("", value)
      for (i = 2; i <= NF; ++i) { at = index($i, "="); value[substr($i, 1, at - 1)] = substr($i, at + 1) }
      count = split(keys, key, " ")
      if (value[key[1]] == "") next
      line = value["name"]
      for (k = 1; k <= count; ++k) line = line OFS value[key[k]]
      print line
    }' "$records"
}

# --- runs ----------------------------------------------------------------------------------------------------------------

# run_of NAME: the run file and the settings of a run, as words
run_of() {
  local table="--set device.product_table=$work/products" host="--set memory.host=${host_gib}GiB"
  local a8="llama-8b $host $table --set model.config.num_hidden_layers=6 --set data.sequence_length=4096 --set train.batch=16
    --set train.microbatch=4 --set train.steps=6 --set optimizer.lr=3e-5"
  local small="llama-sparse --set train.threads=0 --set memory.device=8GiB --set memory.host=8GiB"
  local small_state="--set optimizer.master=split --set optimizer.moments=bf16 --set optimizer.clip_norm=0"
  case $1 in
    loss_cpu) echo "$small --set device.kind=cpu" ;;
    loss_gpu) echo "$small --set device.kind=cuda" ;;
    b15) echo llama-1.5b ;;
    timed | again) echo "llama-1.5b $table" ;;
    fp8) echo "llama-1.5b $table --set train.precision=fp8" ;;
    a8) echo "$a8 --set memory.device=unlimited" ;;
    quarter) echo "$a8 --set memory.device=$(quarter_of_a8)" ;;
    split) echo "$a8 --set memory.device=$(quarter_of_a8) $small_state" ;;
    whole) echo "$a8 --set memory.device=unlimited $small_state" ;;
    blocks26) echo "llama-8b $host --set model.config.num_hidden_layers=26 --set memory.device=24GiB --set train.steps=3" ;;
    drive) echo "llama-1.5b --set memory.device=8GiB --set memory.host=8GiB --set memory.nvme.path=$(drive_folder) --set train.steps=3" ;;
  esac
}

# In bytes; without a measured a8, about that of an H200.
quarter_of_a8() {
  local peak
  peak=$(field runs a8 device_bytes)
  if [ -n "$peak" ]; then echo $((peak / 4)); else echo 12GiB; fi
}

drive_folder() { echo "${DISK:-$work}/strata-drive"; }

# train NAME --set KEY=VALUE...
# shellcheck disable=SC2046  # the settings are words
train() { train_strata runs "$1" $(run_of "$1") "${@:2}"; }

# --- the page ------------------------------------------------------------------------------------------------------------

# lines_of PART KEY: "- name: value"
lines_of() {
  awk -F'\t' -v part="part=$1" -v key="$2=" '
    $1 == part { for (i = 3; i <= NF; ++i) if (index($i, key) == 1) print "- " substr($2, 6) ": " substr($i, length(key) + 1) }' \
    "$records"
}

# What runs met that is slower than it could be, and which runs.
slow_lines() { # COUNT
  awk -F'\t' '
    $1 == "part=runs" {
      for (i = 3; i <= NF; ++i) {
        if ($i !~ /^slow=/) continue
        count = split(substr($i, 6), sentence, "; ")
        for (k = 1; k <= count; ++k) {
          if (!(sentence[k] in runs)) order[++sentences] = sentence[k]
          runs[sentence[k]] = runs[sentence[k]] " " substr($2, 6)
        }
      }
    }
    END { for (k = 1; k <= sentences; ++k) print "- slow path of" runs[order[k]] ": " order[k] }' "$records" | head -n "$1"
}

ceilings_line() {
  awk -F'\t' '
    $1 == "part=ceilings" {
      for (i = 3; i <= NF; ++i) {
        if ($i ~ /^flops=/) text = text sprintf("%s %.0f TFLOP/s, ", substr($2, 6), substr($i, 7) / 1e12)
        if ($i ~ /^rate=/) text = text sprintf("%s %.1f GB/s, ", substr($2, 6), substr($i, 6) / 1e9)
      }
    }
    END { sub(/, $/, "", text); if (text != "") print text }' "$records"
}

worst_kernels() { # COUNT
  awk -F'\t' '
    $1 == "part=kernels" {
      ratio = ""; text = ""
      for (i = 3; i <= NF; ++i) {
        if ($i ~ /^of_ceiling=/) ratio = substr($i, 12)
        if ($i ~ /^milliseconds=/) text = sprintf("%.4f ms", substr($i, 14))
      }
      if (ratio != "") printf "%.3f of the ceiling: %s, %s\n", ratio, substr($2, 6), text
    }' "$records" | sort -g | head -n "$1" | sed 's/^/- /'
}

# What ran, and for each note the steps that have it.
steps_lines() {
  values_of steps note | awk -F'\t' '
    kind == "note" { note[$1] = $2; next }
    !($1 in note) { ran = ran sprintf("%s%s %d s", separator, $1, $3); separator = ", "; next }
    {
      text = note[$1]
      if (!(text in steps)) order[++notes] = text
      steps[text] = steps[text] (steps[text] == "" ? "" : ", ") $1
    }
    END {
      if (ran != "") print "- done: " ran
      for (k = 1; k <= notes; ++k) print "- " steps[order[k]] ": " substr(order[k], 1, 180)
    }' kind=note - kind=seconds <(values_of steps name seconds)
}

# table without the records that have no figures, whose notes are among the steps
measured_table() { # PART COLUMN...
  grep 'measured=yes' "$records" >"$work/measured"
  records=$work/measured table "$@"
}

runs_table() {
  measured_table runs 'run|name' 'tokens/s|tokens_per_second|%.0f' 's/step|step_seconds|%.3f' 'MFU of dense bf16 peak|of_peak|%.3f' \
    'of GEMM|of_gemm|%.3f' 'MFU, report|mfu|%.3f' 'device GiB|device_bytes|%.2f|1073741824' \
    'driver GiB|driver_bytes|%.2f|1073741824' 'host GiB|host_bytes|%.2f|1073741824' \
    'h2d GB/s|h2d_rate|%.1f|1e9' 'd2h GB/s|d2h_rate|%.1f|1e9' 'loss|loss|%.5f' 'plan exact|exact'
}

tests_table() {
  measured_table tests 'tests|name' 'passed|passed' 'failed|failed' 'skipped|skipped' 'seconds|seconds'
}

# The tests that failed, a line each.
failed_tests() { # LINES
  values_of tests failures | awk -F'\t' -v lines="$1" '
    { count = split($2, test, " "); for (k = 1; k <= count; ++k) line[++failed] = "- " $1 ": " test[k] }
    END {
      shown = failed > lines ? lines - 1 : failed
      for (k = 1; k <= shown; ++k) print line[k]
      if (failed > shown) print "- and " failed - shown " more"
    }'
}

section() { # HEAD TEXT: nothing without text
  [ -z "$2" ] || printf '\n## %s\n%s\n' "$1" "$2"
}

machine_line() {
  awk -F'\t' '$1 == "part=machine" { for (i = 3; i <= NF; ++i) { sub(/=/, " ", $i); printf "%s%s", (i > 3 ? ", " : ""), $i }; print "" }' "$records"
}

page() {
  printf '# %s, %s, %s of %s s\n\n' "$date" "$gpu" "$SECONDS" "$total_seconds"
  machine_line
  section Steps "$(steps_lines)"
  page_body
}

# The page, its JSON and the logs, each complete at any time.
write_results() {
  check_all
  records_as_json >"$out/$results_name.json.new" && mv "$out/$results_name.json.new" "$out/$results_name.json"
  page | cut -c 1-300 | sed -n "1,${page_lines}p" >"$out/$results_name.md.new" && mv "$out/$results_name.md.new" "$out/$results_name.md"
}

run_steps() {
  begin_work
  parse_arguments "$@"
  prepare
  before_steps
  local step
  for step in "${steps[@]}"; do run_step "$step"; done
  write_results
  say
  cat "$out/$results_name.md"
  ! grep -qE $'^part=steps\t.*\tnote=(failed|cut off)|^part=checks\t.*\tresult=no: ' "$records"
}
