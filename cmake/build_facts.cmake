# What the program says it was built from: cmake -DSOURCE=FOLDER -DOUTPUT=FILE -DVERSION=0.1 -DTYPE=Release -P cmake/build_facts.cmake
# writes the source file FILE, if it would change. Every build asks git anew, so that the commit is right after a commit, and compiles
# this one file. A tree without .git has no commit; its date is that of its CMakeLists.txt.
set(commit "")
set(dirty false)
file(TIMESTAMP ${SOURCE}/CMakeLists.txt date "%Y-%m-%d" UTC)
if(EXISTS ${SOURCE}/.git)
  set(git git --no-optional-locks -C ${SOURCE})
  execute_process(COMMAND ${git} show --no-patch --format=%h|%cs --abbrev=12 HEAD OUTPUT_VARIABLE shown RESULT_VARIABLE status
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(status EQUAL 0 AND shown MATCHES "^([0-9a-f]+)[|](.+)$")
    set(commit ${CMAKE_MATCH_1})
    set(date ${CMAKE_MATCH_2})
    execute_process(COMMAND ${git} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
    if(changes)
      set(dirty true)
    endif()
  endif()
endif()
string(CONCAT text
  "// Written by cmake/build_facts.cmake.\n"
  "#include \"engine/tools/cli/build_facts.h\"\n\n"
  "namespace strata {\n\n"
  "const BuildFacts& build_facts() {\n"
  "  static constexpr BuildFacts kFacts = {.version = \"${VERSION}\", .type = \"${TYPE}\", .commit = \"${commit}\",\n"
  "                                        .date = \"${date}\", .dirty = ${dirty}};\n"
  "  return kFacts;\n"
  "}\n\n"
  "}  // namespace strata\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUTPUT} "${text}")
endif()
