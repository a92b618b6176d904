# JSON from standard input as lines "path<TAB>value": {"a": {"b": [1, "x"]}} gives a.b.0<TAB>1 and a.b.1<TAB>x. Keys with dots are
# not told apart; a text that ends too early gives what it has. For machines that have neither Python nor jq.
{ text = text $0 "\n" }
END { value("") }

function skip(count) {
  text = substr(text, count + 1)
  match(text, /^[ \t\r\n]*/)
  text = substr(text, RLENGTH + 1)
}

# The string at the beginning of the text, without its quotes.
function string(  result) {
  if (!match(text, /^"([^"\\]|\\.)*"/)) { text = ""; return "" }
  result = substr(text, 2, RLENGTH - 2)
  skip(RLENGTH)
  gsub(/\\n|\\t/, " ", result)
  gsub(/\\"/, "\"", result)
  gsub(/\\\\/, "\\", result)
  return result
}

function value(path,  first, closing, index_, key) {
  skip(0)
  first = substr(text, 1, 1)
  if (first == "{" || first == "[") {
    closing = first == "{" ? "}" : "]"
    index_ = 0
    skip(1)
    while (text != "" && substr(text, 1, 1) != closing) {
      key = index_++
      if (first == "{") { key = string(); skip(1) }
      value(path == "" ? key : path "." key)
      if (substr(text, 1, 1) == ",") skip(1)
    }
    skip(1)
  } else if (first == "\"") {
    print path "\t" string()
  } else if (match(text, /^[^],} \t\r\n]+/)) {
    print path "\t" substr(text, 1, RLENGTH)
    skip(RLENGTH)
  } else {
    text = ""
  }
}
