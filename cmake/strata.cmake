# How every target of the project is declared: one library per folder, one test program per folder of tests/.

add_library(strata_options INTERFACE)
target_compile_options(strata_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Werror>")
if(STRATA_WITH_CUDA)
  # No -Wpedantic: what nvcc makes of a kernel launch is not ISO C++.
  target_compile_options(strata_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra -Werror all-warnings>")
endif()
target_include_directories(strata_options INTERFACE ${CMAKE_SOURCE_DIR})
set(STRATA_TEST_TIMEOUT 300)
if(STRATA_SANITIZE)
  set(STRATA_TEST_TIMEOUT 1500)  # the thread sanitizer slows kernels down a hundredfold
  # GCC's manual: sanitizers make -Wmaybe-uninitialized report what is none.
  target_compile_options(strata_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${STRATA_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all;-Wno-maybe-uninitialized>")
  target_link_options(strata_options INTERFACE -fsanitize=${STRATA_SANITIZE})
endif()

# strata_library(NAME DEPENDS target...): the C++ and CUDA sources of this folder as the static library strata_NAME.
function(strata_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp *.cu)
  if(sources)
    add_library(strata_${name} STATIC ${sources})
    target_link_libraries(strata_${name} PUBLIC strata_options ${ARG_DEPENDS})
  else()
    add_library(strata_${name} INTERFACE)
    target_link_libraries(strata_${name} INTERFACE strata_options ${ARG_DEPENDS})
  endif()
endfunction()

# strata_test(NAME DEPENDS target... FILTER filter): tests/NAME/*_test.cpp as the program NAME_test, each case that GoogleTest's filter
# leaves known to ctest.
function(strata_test name)
  cmake_parse_arguments(ARG "" "FILTER" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  target_link_libraries(${name}_test PRIVATE strata_options test_program ${ARG_DEPENDS} GTest::gtest GTest::gmock
                                             GTest::gtest_main)
  target_compile_definitions(${name}_test PRIVATE STRATA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  gtest_discover_tests(${name}_test TEST_PREFIX "${name}." TEST_FILTER "${ARG_FILTER}" PROPERTIES TIMEOUT ${STRATA_TEST_TIMEOUT} DISCOVERY_TIMEOUT 60)
endfunction()
