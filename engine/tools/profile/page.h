// Pages of profiles: one file of HTML each, with all that it draws and all that draws it, so that it opens
// from a folder without a network. What it is made of lies in page/ and is built into the program.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace strata {

/// The page that shows page_data(). No text of the data can become anything but text.
std::string make_page(const nlohmann::json& data);
/// The page that shows two summaries side by side: compare.h.
std::string make_comparison_page(const nlohmann::json& data);

}  // namespace strata
