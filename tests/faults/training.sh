# shellcheck shell=bash disable=SC2034
# Sourced, from the repository's root, by scripts that kill training: ". tests/faults/training.sh FOLDER" makes a folder there that goes
# with the script, and enters it. In it are a text and the beginning of a run file, which the script completes.
strata=$PWD/build/strata
folder=$(mktemp -d "$1/strata-kill-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit

for ((line = 0; line < 400; ++line)); do echo "line $((line * line)) of a small text, $((line % 7)) words long"; done >corpus.txt
cat >run.yaml <<'END'
model:
  architecture: llama
  config: {num_hidden_layers: 3, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 48, vocab_size: 256}
data: {path: corpus.txt, sequence_length: 24}
END

milliseconds() { date +%s%3N; }

# sleep_at_random LEAST MOST: some milliseconds between the two
sleep_at_random() { sleep "$(awk -v least="$1" -v most="$2" -v random="$RANDOM" 'BEGIN { print (least + (most - least) * random / 32768) / 1000 }')"; }

# run_whole RESULT COMMAND…: trains with nobody killing; sets `expected`, what RESULT finds in its output, and `length`, its milliseconds.
run_whole() {
  local result=$1 start
  shift
  start=$(milliseconds)
  expected=$("$@" 2>/dev/null | "$result") || true
  length=$(($(milliseconds) - start))
  [ -n "$expected" ] || { echo "the run that nobody kills failed" >&2; exit 1; }
}
