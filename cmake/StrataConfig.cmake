# find_package(Strata) gives Strata::strata: the library and the header <strata/strata.h>. The tree may lie anywhere.
# Libraries lie in lib, or in lib/x86_64-linux-gnu.
foreach(strata_above IN ITEMS ${CMAKE_CURRENT_LIST_DIR}/../../.. ${CMAKE_CURRENT_LIST_DIR}/../../../..)
  if(EXISTS ${strata_above}/include/strata/strata.h)
    get_filename_component(strata_prefix ${strata_above} ABSOLUTE)
    break()
  endif()
endforeach()
get_filename_component(strata_library ${CMAKE_CURRENT_LIST_DIR}/../../libstrata.so ABSOLUTE)
if(NOT EXISTS ${strata_library})
  set(Strata_FOUND FALSE)
  set(Strata_NOT_FOUND_MESSAGE "${strata_library} is missing: build the target strata_shared before you install")
  return()
endif()
if(NOT TARGET Strata::strata)
  add_library(Strata::strata SHARED IMPORTED)
  set_target_properties(Strata::strata PROPERTIES IMPORTED_LOCATION ${strata_library}
    INTERFACE_INCLUDE_DIRECTORIES ${strata_prefix}/include INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()
