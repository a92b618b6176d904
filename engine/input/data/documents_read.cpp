#include "engine/input/data/documents_read.h"

#include <fmt/format.h>

#include <numeric>
#include <string_view>

#include "base/counts.h"
#include "engine/input/text/utf8.h"

namespace strata {
namespace {

struct KindName {
  const char *one, *many, *key;
};
constexpr std::array<KindName, kDocumentKinds> kNames = {
    KindName{"text", "texts", "texts"},
    {"prompt with its completion", "prompts with completions", "prompts"},
    {"conversation", "conversations", "conversations"},
    {"ShareGPT conversation", "ShareGPT conversations", "sharegpt"},
    {"Alpaca instruction", "Alpaca instructions", "alpaca"}};

std::int64_t replacements_in(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::int64_t count = 0;
  for (std::size_t at = text.find(kReplacement); at != std::string_view::npos;
       at = text.find(kReplacement, at + kReplacement.size()))
    ++count;
  return count;
}

}  // namespace

void DocumentsRead::add(const DocumentsRead& more) {
  for (std::size_t kind = 0; kind < kDocumentKinds; ++kind) documents[kind] += more.documents[kind];
  byte_order_marks += more.byte_order_marks;
  replaced += more.replaced;
  if (first_replaced.empty()) first_replaced = more.first_replaced;
}

void DocumentsRead::count_replaced(const std::string& file, std::string_view text) {
  std::string buffer;
  const std::string_view valid = text::make_valid(text, buffer);
  if (valid.data() == text.data()) return;
  replaced += replacements_in(valid) - replacements_in(text);
  if (first_replaced.empty()) first_replaced = text::make_valid(file, buffer);
}

std::int64_t DocumentsRead::all() const {
  return std::accumulate(documents.begin(), documents.end(), std::int64_t{0});
}

std::string DocumentsRead::describe() const {
  std::string text;
  for (std::size_t kind = 0; kind < kDocumentKinds; ++kind) {
    if (documents[kind] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", grouped(documents[kind]),
                        documents[kind] == 1 ? kNames[kind].one : kNames[kind].many);
  }
  return text.empty() ? "no document" : text;
}

std::vector<std::string> DocumentsRead::warnings() const {
  std::vector<std::string> warnings;
  if (replaced > 0)
    warnings.push_back(
        fmt::format("data: {} places are no UTF-8 and are read as U+FFFD, the first in {}: write such files "
                    "as UTF-8, which they "
                    "are not if they are Latin-1",
                    replaced, first_replaced));
  if (byte_order_marks > 0)
    warnings.push_back(fmt::format("data: {} file{} with a byte order mark, which is left out",
                                   byte_order_marks, byte_order_marks == 1 ? " begins" : "s begin"));
  return warnings;
}

void to_json(nlohmann::json& json, const DocumentsRead& read) {
  json = {{"documents", read.documents},
          {"byte_order_marks", read.byte_order_marks},
          {"replaced", read.replaced},
          {"first_replaced", read.first_replaced}};
}

void from_json(const nlohmann::json& json, DocumentsRead& read) {
  json.at("documents").get_to(read.documents);
  json.at("byte_order_marks").get_to(read.byte_order_marks);
  json.at("replaced").get_to(read.replaced);
  json.at("first_replaced").get_to(read.first_replaced);
}

nlohmann::json kinds_json(const DocumentsRead& read) {
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t kind = 0; kind < kDocumentKinds; ++kind)
    if (read.documents[kind] > 0) json[kNames[kind].key] = read.documents[kind];
  return json;
}

}  // namespace strata
