# cpack reads this before it packs.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  message(FATAL_ERROR "strata is packed by cpack -G DEB only; cmake --install makes a tree of it, and the target bundle a tar file")
endif()
if(CPACK_STRATA_WITH_CUDA)
  message(FATAL_ERROR "The Debian package is of a build without CUDA: configure another build folder with -DSTRATA_CUDA=OFF; "
                      "with CUDA, cmake --build ${CPACK_PACKAGE_DIRECTORY} --target bundle makes a tar file")
endif()
