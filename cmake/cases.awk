# Shortens ctest's output on launches of many cases. If a launch failed, the output of its failed cases stays, with their names and
# the case that ran when the launch ended. Nothing stays of launches and cases that passed.
function flush_case() { printf "%s", held; held = "" }
/^ +Start +[0-9]+:/ || /\.+ +Passed +[0-9.]+ sec$/ { next }
/^ *[0-9]+\/[0-9]+ Test +#[0-9]+:/ { flush_case() }
/^\[ RUN      \]/ { flush_case(); held = $0 "\n"; in_case = 1; next }
/^\[       OK \]/ || /^\[  SKIPPED \].* \([0-9]+ ms\)$/ { held = ""; in_case = 0; next }
/^\[  FAILED  \]/ && in_case { flush_case(); in_case = 0; print; next }
/^\[[-=]+\]/ || /^Note: / || /^Running main\(\)/ || /^\[  (PASSED|SKIPPED)  ?\]/ { next }
in_case { held = held $0 "\n"; next }
{ print }
END { flush_case() }
