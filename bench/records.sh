# shellcheck shell=bash
# Sourced by bench/gpu_common.sh: measurements as records, a line each of "key=value" fields between tabs, where "part" and "name" tell
# records apart; JSON and tables made of them. Needs bash and awk alone.

# The file of all records; the caller sets it, and bench/json.awk's folder.
records=
json_awk=

# flatten <JSON: lines "path<TAB>value"
flatten() { awk -f "$json_awk"; }

# of_path PATH <flattened JSON: the value there, or nothing
of_path() { awk -F'\t' -v path="$1" '$1 == path { print $2; exit }'; }

# field PART NAME KEY: the value, or nothing
field() {
  awk -F'\t' -v wanted="part=$1" -v name="name=$2" -v key="$3=" '
    $1 == wanted && $2 == name { for (i = 3; i <= NF; ++i) if (index($i, key) == 1) value = substr($i, length(key) + 1) }
    END { print value }' "$records"
}

# record PART NAME KEY=VALUE...: replaces an earlier record of this part and name. Empty values are left out.
record() {
  local part=$1 name=$2 pair line
  shift 2
  line="part=$part"$'\t'"name=$name"
  for pair; do
    pair=$(tr '\t\n' '  ' <<<"$pair" | sed 's/ *$//')
    [ -z "${pair#*=}" ] || line+=$'\t'$pair
  done
  awk -F'\t' -v part="part=$part" -v name="name=$name" '$1 != part || $2 != name' "$records" >"$records.new"
  printf '%s\n' "$line" >>"$records.new"
  mv "$records.new" "$records"
}

# quotient A B...: A / B / …; nothing where one of them is missing or a divisor is 0
quotient() {
  local operand
  for operand; do [ -n "$operand" ] || return 0; done
  awk 'BEGIN { for (i = 2; i < ARGC; ++i) { if (ARGV[i] + 0 == 0) exit; ARGV[1] /= ARGV[i] }; printf "%.6g", ARGV[1] }' "$@"
}

# All records as one JSON object: {"machine": {…}, "measurements": [{…}, …]}
records_as_json() {
  awk -F'\t' '
    function json(value) {
      if (value ~ /^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$/) return value
      gsub(/\\/, "\\\\", value); gsub(/"/, "\\\"", value)
      return "\"" value "\""
    }
    function object(first,  i, at, text) {
      for (i = first; i <= NF; ++i) {
        at = index($i, "=")
        text = text (text == "" ? "" : ", ") "\"" substr($i, 1, at - 1) "\": " json(substr($i, at + 1))
      }
      return "{" text "}"
    }
    $1 == "part=machine" { machine = object(3); next }
    { lines = lines (lines == "" ? "" : ",\n") object(1) }
    END { printf "{\"machine\": %s,\n\"measurements\": [\n%s\n]}\n", machine == "" ? "{}" : machine, lines }' "$records"
}

# The measurements of a file that records_as_json wrote, as records.
json_as_records() {
  flatten <"$1" | awk -F'\t' '
    split($1, path, ".") == 3 && path[1] == "measurements" {
      if (path[2] "" != last "") { if (line != "") print line; line = ""; last = path[2] }
      line = line (line == "" ? "" : "\t") path[3] "=" $2
    }
    END { if (line != "") print line }'
}

# table PART COLUMN...: a Markdown table of the part's records. A column is "head|key", or "head|key|format|divisor" for numbers;
# records with a note have it in a last column.
table() {
  local part=$1
  shift
  awk -F'\t' -v part="part=$part" -v columns="$(printf '%s\n' "$@")" '
    BEGIN {
      count = split(columns, column, "\n")
      for (c = 1; c <= count; ++c) {
        split(column[c], spec, "|")
        head[c] = spec[1]; key[c] = spec[2]; form[c] = spec[3]; unit[c] = spec[4]
      }
    }
    function cell(c) {
      if (!(key[c] in value)) return ""
      if (form[c] == "") return value[key[c]]
      return sprintf(form[c], value[key[c]] / (unit[c] == "" ? 1 : unit[c]))
    }
    $1 != part { next }
    {
      split("", value)
      for (i = 2; i <= NF; ++i) { at = index($i, "="); value[substr($i, 1, at - 1)] = substr($i, at + 1) }
      row = "|"
      for (c = 1; c <= count; ++c) row = row " " cell(c) " |"
      rows = rows row (("note" in value) ? " " value["note"] " |" : " |") "\n"
      notes = notes ("note" in value)
    }
    END {
      if (rows == "") exit
      noted = notes ~ /1/
      first = "|"; second = "|"
      for (c = 1; c <= count; ++c) { first = first " " head[c] " |"; second = second "---|" }
      if (noted) { first = first " note |"; second = second "---|" } else gsub(/ \| \|\n/, " |\n", rows)
      printf "%s\n%s\n%s", first, second, rows
    }' "$records"
}
