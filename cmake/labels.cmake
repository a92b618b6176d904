# Each test of ctest has one label, which says what kind of work it is.
#   unit     parts of the program by themselves; all of them take less than a minute on two cores
#   run      whole runs, or many steps of one
#   process  ranks, kills, and launches of other programs
#   long     fuzzing, other instruction sets, emulated GPUs, compiled kernels, bundles, the documentation, and slow cases
# The target LABEL_tests builds what the tests of the label need.

set(STRATA_LABELS unit run process long)
foreach(label IN LISTS STRATA_LABELS)
  add_custom_target(${label}_tests)
endforeach()

# strata_label(LABEL TEST target...): gives the test its label. It runs the targets, so that LABEL_tests builds them.
function(strata_label label test)
  if(NOT label IN_LIST STRATA_LABELS)
    list(JOIN STRATA_LABELS ", " labels)
    message(FATAL_ERROR "The test ${test} has the label '${label}': it needs one of ${labels} (cmake/labels.cmake)")
  endif()
  set_tests_properties(${test} PROPERTIES LABELS ${label})
  set_property(GLOBAL APPEND PROPERTY STRATA_LABELLED_TESTS ${test})
  if(ARGN)
    add_dependencies(${label}_tests ${ARGN})
  endif()
endfunction()

# Stops if a test of this folder or of one below has no label.
function(strata_check_labels folder)
  get_property(tests DIRECTORY ${folder} PROPERTY TESTS)
  get_property(labelled GLOBAL PROPERTY STRATA_LABELLED_TESTS)
  if(labelled)
    list(REMOVE_ITEM tests ${labelled})
  endif()
  if(tests)
    list(JOIN tests ", " tests)
    message(FATAL_ERROR "Tests of ${folder} have no label: ${tests}. Give each one with strata_label() (cmake/labels.cmake)")
  endif()
  get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS below)
    strata_check_labels(${subfolder})
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL strata_check_labels ${CMAKE_SOURCE_DIR})
