// What a search for a layout found, for a terminal and for programs.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/run/tune/layout_search.h"

namespace strata {

/// Layouts that are printed.
constexpr std::size_t kShownLayouts = 10;

/// Where layouts stand in the table.
constexpr std::size_t kLayoutColumn = 62;

/// A table of the best, each with its step, memory and bytes and why it is slower than the first; then how
/// many layouts there were.
std::string search_text(const LayoutSearch& search, const LayoutInput& input);
/// A line with the settings for the best, to copy whole.
std::string search_settings(const LayoutSearch& search, const LayoutInput& input);

/// {"best": {"settings": […], …}, "layouts": […], "counts": {…}}: all that were planned.
nlohmann::json search_json(const LayoutSearch& search, const LayoutInput& input);

}  // namespace strata
