// The files of page/ and d3, as the build has put them into the program (page/embed.cmake).
#pragma once

#include <string_view>

namespace strata::page_files {

extern const std::string_view kFrame, kReport, kComparison, kStyle, kD3Licence, kD3, kReportScript,
    kComparisonScript;

}  // namespace strata::page_files
