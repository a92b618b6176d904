# PkgConfig::oniguruma. Its shared library also exports POSIX's regcomp(), regexec() and regfree(), with another syntax than
# the C library's. The C library must come first, or every program that links both gets Oniguruma's (a plain -lc goes to the end).
pkg_check_modules(oniguruma REQUIRED IMPORTED_TARGET oniguruma)
get_target_property(oniguruma_libraries PkgConfig::oniguruma INTERFACE_LINK_LIBRARIES)
set_target_properties(PkgConfig::oniguruma PROPERTIES INTERFACE_LINK_LIBRARIES "-l:libc.so.6;${oniguruma_libraries}")
