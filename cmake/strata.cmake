# How every target of the project is declared: one library per folder, one test program per folder of tests/.

add_library(strata_options INTERFACE)
target_compile_options(strata_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Werror>")
# All code may become a part of libstrata.so. What is hidden is as fast there as in a program: nothing can be put in its place.
target_compile_options(strata_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fPIC;-fvisibility=hidden;-fvisibility-inlines-hidden>"
                                                "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fPIC>")
if(STRATA_WITH_CUDA)
  # No -Wpedantic: what nvcc makes of a kernel launch is not ISO C++.
  target_compile_options(strata_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra -Werror all-warnings>")
endif()
target_include_directories(strata_options INTERFACE ${CMAKE_SOURCE_DIR})
set(STRATA_TEST_TIMEOUT 300)  # of a case, in seconds
if(STRATA_SANITIZE)
  set(STRATA_TEST_TIMEOUT 1500)  # the thread sanitizer slows kernels down a hundredfold
  # GCC's manual: sanitizers make -Wmaybe-uninitialized report what is none.
  target_compile_options(strata_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${STRATA_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all;-Wno-maybe-uninitialized>")
  target_link_options(strata_options INTERFACE -fsanitize=${STRATA_SANITIZE})
endif()

math(EXPR STRATA_LAUNCH_TIMEOUT "10 * ${STRATA_TEST_TIMEOUT}")

# For code whose speed nobody waits for: reading run files, printing, tests. What tests call is optimised as it is always.
set(STRATA_QUICKLY_COMPILED $<$<CONFIG:Release>:-O1>)

# What many sources include and no edit changes is compiled once and reused by all targets of the same options: strata_precompiled
# optimised as ever, strata_precompiled_quickly for STRATA_QUICKLY_COMPILED, strata_precompiled_tests for tests. A target with options
# of its own precompiles for itself. The preset debug compiles without it, and so does cmake/check_form.sh, so that it hides no
# missing include.
set(STRATA_PRECOMPILED <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <filesystem> <fstream> <functional> <map>
                       <memory> <mutex> <optional> <span> <string> <thread> <utility> <vector> <boost/container/small_vector.hpp> <fmt/format.h> <nlohmann/json.hpp>)
function(strata_precompile target)
  target_precompile_headers(${target} PRIVATE ${ARGN} ${STRATA_PRECOMPILED})
endfunction()
# ccache has to be told that it may keep what was made with precompiled headers.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$")
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(strata_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # so that ccache knows what it reads
endif()
file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cpp "")
# strata_precompiled_headers(NAME [HEADERS header...] [LINKS target...] [OPTIONS option...])
function(strata_precompiled_headers name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINKS;OPTIONS" ${ARGN})
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(${name} PRIVATE strata_options fmt::fmt nlohmann_json::nlohmann_json ${ARG_LINKS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  strata_precompile(${name} ${ARG_HEADERS})
endfunction()
strata_precompiled_headers(strata_precompiled)
strata_precompiled_headers(strata_precompiled_quickly OPTIONS ${STRATA_QUICKLY_COMPILED})

# A unity build compiles eight sources of a target together. A source is compiled by itself if Highway includes it once per instruction
# set, if it uses a namespace, or if it has the comment "Not in a unity build:", which says why.
function(strata_leave_unity)
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} reason REGEX "foreach_target[.]h|^using namespace|^// Not in a unity build:" LIMIT_COUNT 1)
    if(reason)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# strata_library(NAME DEPENDS target... [OPTIONS option...]): the C++ and CUDA sources of this folder as the static library
# strata_NAME, compiled with `options` too.
function(strata_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;OPTIONS;FOLDERS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp *.cu)
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB more CONFIGURE_DEPENDS ${folder}/*.cpp)
    list(APPEND sources ${more})
  endforeach()
  strata_leave_unity(${sources})
  if(sources)
    add_library(strata_${name} STATIC ${sources})
    target_link_libraries(strata_${name} PUBLIC strata_options ${ARG_DEPENDS})
    target_compile_options(strata_${name} PRIVATE ${ARG_OPTIONS})
    if(NOT ARG_OPTIONS)
      target_precompile_headers(strata_${name} REUSE_FROM strata_precompiled)
    elseif(ARG_OPTIONS STREQUAL STRATA_QUICKLY_COMPILED)
      target_precompile_headers(strata_${name} REUSE_FROM strata_precompiled_quickly)
    else()
      strata_precompile(strata_${name})
    endif()
  else()
    add_library(strata_${name} INTERFACE)
    target_link_libraries(strata_${name} INTERFACE strata_options ${ARG_DEPENDS})
  endif()
endfunction()

# How a program of tests is compiled: quickly, and with the given options.
function(strata_compile_test program)
  target_compile_options(${program} PRIVATE ${STRATA_QUICKLY_COMPILED} ${ARGN})
  if(ARGN)
    strata_precompile(${program} <gmock/gmock.h> <gtest/gtest.h>)
  else()
    target_precompile_headers(${program} REUSE_FROM strata_precompiled_tests)
  endif()
endfunction()

# strata_test(NAME LABEL label DEPENDS target... [OPTIONS option...] [WITHOUT source...] [FILTER filter] [LAUNCHES count]
#             [SUITES label count...]): tests/NAME/*.cpp and those one folder below, but for sources that some library has, as the
# program NAME_test, compiled with `options` too. ctest runs the cases that GoogleTest's filter leaves in `count` launches, and each
# launch takes every count-th case. More launches take longer together, but begin earlier, so that all cores are busy to the end. A case
# that takes longer than STRATA_TEST_TIMEOUT ends its launch and is named (tests/support/program.cpp).
#
# A suite whose name ends with UnitTest, RunTest, ProcessTest or LongTest has that label if SUITES lists it, with its own launches.
# All other cases of the program have `label`. So each case is in one launch, which tests/labels/labels_test.py proves.
function(strata_test name)
  cmake_parse_arguments(ARG "" "LABEL;FILTER;LAUNCHES" "DEPENDS;OPTIONS;WITHOUT;SUITES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*/*.cpp)
  list(TRANSFORM ARG_WITHOUT PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(REMOVE_ITEM sources ${ARG_WITHOUT})
  if(NOT sources)
    return()
  endif()
  if(ARG_FILTER AND ARG_SUITES)
    message(FATAL_ERROR "strata_test(${name}) has FILTER and SUITES: GoogleTest has no filter for what both leave")
  endif()
  strata_leave_unity(${sources})
  add_executable(${name}_test ${sources})
  target_link_libraries(${name}_test PRIVATE strata_options test_program ${ARG_DEPENDS} GTest::gtest GTest::gmock
                                             GTest::gtest_main)
  target_compile_definitions(${name}_test PRIVATE STRATA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  strata_compile_test(${name}_test ${ARG_OPTIONS})
  set(suites_of_others)
  while(ARG_SUITES)
    list(POP_FRONT ARG_SUITES label launches)
    string(SUBSTRING ${label} 0 1 initial)
    string(SUBSTRING ${label} 1 -1 rest)
    string(TOUPPER ${initial} initial)
    list(APPEND suites_of_others *${initial}${rest}Test.*)
    strata_launches(${name} ${name}.${label} ${label} ${launches} *${initial}${rest}Test.*)
  endwhile()
  if(suites_of_others)
    list(JOIN suites_of_others ":" ARG_FILTER)
    string(PREPEND ARG_FILTER "-")
  elseif(NOT ARG_FILTER)
    set(ARG_FILTER "*")
  endif()
  if(NOT ARG_LAUNCHES)
    set(ARG_LAUNCHES 1)
  endif()
  strata_launches(${name} ${name} "${ARG_LABEL}" ${ARG_LAUNCHES} ${ARG_FILTER})
endfunction()

# The cases of NAME_test that the filter leaves, in `count` launches TEST.1, TEST.2, ...
function(strata_launches name test label count filter)
  foreach(launch RANGE 1 ${count})
    math(EXPR index "${launch} - 1")
    add_test(NAME ${test}.${launch} COMMAND ${name}_test --gtest_filter=${filter})
    strata_label("${label}" ${test}.${launch} ${name}_test)
    set_tests_properties(${test}.${launch} PROPERTIES
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${count};GTEST_SHARD_INDEX=${index}"
      COST ${count} TIMEOUT ${STRATA_LAUNCH_TIMEOUT} FAIL_REGULAR_EXPRESSION "Running 0 tests")
  endforeach()
endfunction()
