#include "engine/tools/profile/page.h"

#include <string_view>
#include <utility>

#include "base/json_text.h"
#include "engine/tools/profile/page_files.h"

namespace strata {
namespace {

/// JSON within an element `script`: without "<" nothing in it ends that element or begins a comment.
std::string script_json(const nlohmann::json& data) {
  std::string escaped;
  for (const char c : json_text(data)) {
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

/// Puts each text in the place of its mark, which the template has once.
std::string filled(std::string_view page,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> texts) {
  std::string whole;
  for (const auto& [mark, text] : texts) {
    const std::size_t place = page.find(mark);
    whole += page.substr(0, place);
    whole += text;
    page.remove_prefix(place + mark.size());
  }
  return whole.append(page);
}

struct PageParts {
  std::string_view title, mark;
  std::string content, library;
  std::string_view script;
};

std::string make(const PageParts& parts, const nlohmann::json& data) {
  return filled(page_files::kFrame, {{"{{title}}", parts.title},
                                     {"{{style}}", page_files::kStyle},
                                     {"{{mark}}", parts.mark},
                                     {"{{content}}", parts.content},
                                     {"{{data}}", script_json(data)},
                                     {"{{library}}", parts.library},
                                     {"{{script}}", parts.script}});
}

}  // namespace

std::string make_page(const nlohmann::json& data) {
  return make({.title = "Strata profile",
               .mark = "strata profile",
               .content = filled(page_files::kReport, {{"{{d3_licence}}", page_files::kD3Licence}}),
               .library = filled("<script>\n{{d3}}</script>\n", {{"{{d3}}", page_files::kD3}}),
               .script = page_files::kReportScript},
              data);
}

std::string make_comparison_page(const nlohmann::json& data) {
  return make({.title = "Strata profiles compared",
               .mark = "strata profiles compared",
               .content = std::string(page_files::kComparison),
               .library = {},
               .script = page_files::kComparisonScript},
              data);
}

}  // namespace strata
