# `cpack -G DEB` in the build folder: a Debian package of the CPU build. It depends on Debian's libraries alone, so cpack refuses a build
# with CUDA, whose form for other machines is the bundle. It has the component `strata` (cmake/install.cmake), and what only Debian wants.
if(STRATA_WITH_CUDA)
  message(STATUS "With CUDA the form for other machines is the target bundle; cpack -G DEB needs a build with -DSTRATA_CUDA=OFF")
endif()

set(debian ${CMAKE_SOURCE_DIR}/cmake/debian)
# Both versions are in Debian's changelog, "strata (0.1-1) unstable; urgency=medium"; its last line names the maintainer.
file(STRINGS ${debian}/changelog heading LIMIT_COUNT 1)
if(NOT heading MATCHES "^strata [(](.*)-([0-9]+)[)]" OR NOT CMAKE_MATCH_1 STREQUAL PROJECT_VERSION)
  message(FATAL_ERROR "cmake/debian/changelog begins with another version than CMakeLists.txt has: add an entry for ${PROJECT_VERSION}")
endif()
set(CPACK_DEBIAN_PACKAGE_RELEASE ${CMAKE_MATCH_2})
file(STRINGS ${debian}/changelog signature REGEX "^ -- ")
list(GET signature 0 signature)
string(REGEX REPLACE "^ -- (.*)  .*" "\\1" CPACK_PACKAGE_CONTACT "${signature}")

install(FILES ${debian}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${debian}/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME strata COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${manual}/zsh/_strata DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT debian EXCLUDE_FROM_ALL)
install(CODE "
  set(package \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  # Debian's libraries lie where the loader looks anyway.
  file(RPATH_REMOVE FILE \"\${package}/${CMAKE_INSTALL_BINDIR}/strata\")
  set(documents \"\${package}/${CMAKE_INSTALL_DOCDIR}\")
  configure_file(\"${debian}/changelog\" \"\${documents}/changelog.Debian\" COPYONLY)
  configure_file(\"${CMAKE_SOURCE_DIR}/CHANGELOG.md\" \"\${documents}/changelog\" COPYONLY)
  file(GLOB compressed \"\${package}/${CMAKE_INSTALL_MANDIR}/man1/*.1\" \"\${documents}/changelog*\")
  execute_process(COMMAND gzip --no-name --best --force \${compressed} COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT debian EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME strata)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train transformers that do not fit the device's memory")
set(CPACK_PACKAGE_DESCRIPTION "\
Strata fine-tunes and pretrains language models with budgets for the memory of
the device, of the host, and of drives. It plans each buffer before the first
step, refuses what cannot fit, and moves data while it computes. It reads a
Hugging Face model folder and writes a new one, or a PEFT adapter.
.
This package has the CPU device alone, manual pages, run files, and a text for
a first run.")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};strata;strata;/;${CMAKE_BINARY_DIR};strata;debian;/")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/package_checks.cmake)
set(CPACK_STRATA_WITH_CUDA ${STRATA_WITH_CUDA})
include(CPack)
