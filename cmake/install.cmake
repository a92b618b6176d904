# What `cmake --install build --prefix P` puts below P: the program, manual pages, completions, licences, run files, and the text that
# the quickstart reads. Nothing there knows where it lies, so the tree may be moved. The Debian package has the component `strata` too;
# the component `prefix` is what a package has otherwise (cmake/package.cmake).
include(GNUInstallDirs)

set(manual ${CMAKE_BINARY_DIR}/manual)
# install() says nothing of a program that was never built but that a file is missing.
install(CODE "
  foreach(file IN ITEMS \"$<TARGET_FILE:strata>\" \"${manual}/man1/strata.1\")
    if(NOT EXISTS \"\${file}\")
      message(FATAL_ERROR \"Nothing is installed: \${file} has not been built; run cmake --build ${CMAKE_BINARY_DIR} --target strata\")
    endif()
  endforeach()" COMPONENT strata)
install(TARGETS strata RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT strata)
install(DIRECTORY ${manual}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT strata)
install(FILES ${manual}/bash/strata DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT strata)
install(FILES ${manual}/fish/strata.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT strata)
install(FILES ${manual}/zsh/_strata DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT prefix)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/strata COMPONENT strata
        PATTERN make_texts.py EXCLUDE PATTERN __pycache__ EXCLUDE)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT strata)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT strata
        PATTERN contributing EXCLUDE PATTERN screenshots.py EXCLUDE)

# The library, for programs of C++. Without it there is a program all the same.
set(package ${CMAKE_BINARY_DIR}/StrataConfigVersion.cmake)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${package} COMPATIBILITY ExactVersion)
install(TARGETS strata_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development OPTIONAL)
install(FILES engine/api/strata/strata.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/strata COMPONENT development)
install(FILES cmake/StrataConfig.cmake ${package} DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Strata COMPONENT development)

# README and the pages name run files by this path.
file(RELATIVE_PATH examples /${CMAKE_INSTALL_DOCDIR} /${CMAKE_INSTALL_DATADIR}/strata/examples)
install(CODE "
  set(link \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}/examples\")
  file(CREATE_LINK ${examples} \"\$ENV{DESTDIR}\${link}\" SYMBOLIC)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${link}\")" COMPONENT strata)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT prefix)
# Only Debian's packages say whose headers are compiled in.
install(CODE "
  set(licences \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}/licences\")
  execute_process(COMMAND python3 -B \"${CMAKE_SOURCE_DIR}/cmake/third_party.py\" licences \"\$ENV{DESTDIR}\${licences}\"
                          --build \"${CMAKE_BINARY_DIR}\" --targets strata
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE reason)
  if(NOT status EQUAL 0)
    message(WARNING \"The licences of what the program has compiled in are missing: \${reason}\")
  endif()
  file(GLOB_RECURSE files RELATIVE \"\$ENV{DESTDIR}/\" \"\$ENV{DESTDIR}\${licences}/*\")
  list(TRANSFORM files PREPEND /)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \${files})" COMPONENT prefix)
