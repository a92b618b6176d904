#include "engine/config/yaml_document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>

#include <charconv>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/error.h"

namespace strata {
namespace {

constexpr std::int64_t kMaxNodes = 100'000;
constexpr std::size_t kMaxDepth = 64;

/// Counts the nodes of a document, those of an alias again each time it stands there, and builds nothing.
class NodeCounter : public YAML::EventHandler {
 public:
  explicit NodeCounter(const Source& source) : source_(source) {}

  /// yaml-cpp's Load() ignores all that follows the first document, and its LoadAll() does not return for
  /// some of that.
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) {
      fail(source_.place(mark), "the one YAML document of the file ended before this line");
    }
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { leaf(mark, anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string&) override {
    leaf(mark, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto size = sizes_.find(anchor);
    if (size == sizes_.end()) fail(source_.place(mark), "this alias stands within what it stands for");
    add(mark, size->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor);
  }
  void OnMapEnd() override { close(); }

  std::int64_t nodes() const { return nodes_; }

 private:
  struct Open {
    YAML::anchor_t anchor;
    std::int64_t nodes_before;
  };

  void add(const YAML::Mark& mark, std::int64_t nodes) {
    nodes_ += nodes;
    if (nodes_ <= kMaxNodes) return;
    fail(source_.place(mark),
         fmt::format("with its aliases written out this has more than {} values", kMaxNodes));
  }
  void leaf(const YAML::Mark& mark, YAML::anchor_t anchor) {
    add(mark, 1);
    if (anchor != YAML::NullAnchor) sizes_[anchor] = 1;
  }
  void open(const YAML::Mark& mark, YAML::anchor_t anchor) {
    open_.push_back({anchor, nodes_});
    add(mark, 1);
    if (open_.size() > kMaxDepth) {
      fail(source_.place(mark), fmt::format("this is nested more than {} levels deep", kMaxDepth));
    }
  }
  void close() {
    const auto [anchor, nodes_before] = open_.back();
    if (anchor != YAML::NullAnchor) sizes_[anchor] = nodes_ - nodes_before;
    open_.pop_back();
  }

  const Source& source_;
  int documents_ = 0;
  std::int64_t nodes_ = 0;
  std::vector<Open> open_;                        ///< lists and maps around the present place
  std::map<YAML::anchor_t, std::int64_t> sizes_;  ///< nodes of what anchors stand for
};

std::int64_t checked_nodes(const std::string& text, const Source& source) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  NodeCounter counter(source);
  while (parser.HandleNextDocument(counter)) {
  }
  return counter.nodes();
}

/// The value of an escape such as \ud83d at `position`; 0 if there is none.
std::uint32_t escaped_unit(const std::string& text, std::size_t position) {
  std::uint32_t value = 0;
  if (text.size() < position + 6 || text[position] != '\\' || text[position + 1] != 'u') return 0;
  const char* digits = text.data() + position + 2;
  return std::from_chars(digits, digits + 4, value, 16).ptr == digits + 4 ? value : 0;
}

/// JSON writes a character beyond U+FFFF as two escapes, YAML as one.
std::string with_yaml_escapes(const std::string& json) {
  std::string text;
  for (std::size_t i = 0; i < json.size();) {
    const std::uint32_t high = escaped_unit(json, i), low = escaped_unit(json, i + 6);
    if (high >= 0xd800 && high < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
      text += fmt::format("\\U{:08x}", 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
      i += 12;
    } else {
      const std::size_t length = json[i] == '\\' ? 2 : 1;
      text.append(json, i, length);
      i += length;
    }
  }
  return text;
}

/// Counts from 0, as marks do.
bool is_indented_by_tabs(const std::string& text, int line) {
  std::istringstream lines(text);
  std::string found;
  for (int i = 0; i <= line; ++i) std::getline(lines, found);
  return found.substr(0, found.find_first_not_of(" \t")).find('\t') != std::string::npos;
}

/// A pattern such as *.txt is an alias to YAML. A tab is reported where it stands, or in the line after it.
std::string usual_reason(const YAML::Exception& error, const std::string& yaml) {
  if (error.msg == YAML::ErrorMsg::UNKNOWN_ANCHOR || error.msg == YAML::ErrorMsg::ALIAS_NOT_FOUND)
    return "; put a text that begins with * in quotes";
  for (const int line : {error.mark.line, error.mark.line - 1}) {
    if (is_indented_by_tabs(yaml, line))
      return fmt::format("; line {} is indented by a tab: write spaces", line + 1);
  }
  return "";
}

bool has_surrogates(const std::string& text) {
  return text.find("\\ud") != std::string::npos || text.find("\\uD") != std::string::npos;
}

}  // namespace

std::string Source::place(const YAML::Mark& mark) const {
  return is_override || mark.is_null() ? name : fmt::format("{}:{}:{}", name, mark.line + 1, mark.column + 1);
}

void fail(const std::string& place, const std::string& sentence) {
  throw ConfigError(fmt::format("{}: {}", place, sentence));
}

Document parse_yaml(const std::string& text, const Source& source) {
  if (text.size() > kMaxRunFileBytes) {
    fail(source.name,
         fmt::format("{} bytes are more than the {} of the longest run file", text.size(), kMaxRunFileBytes));
  }
  const std::string yaml =
      has_surrogates(text) && nlohmann::json::accept(text) ? with_yaml_escapes(text) : text;
  try {
    const std::int64_t values = checked_nodes(yaml, source);
    return {YAML::Load(yaml), values};
  } catch (const YAML::Exception& error) {
    fail(source.place(error.mark),
         fmt::format("this is not valid YAML: {}{}", error.msg, usual_reason(error, yaml)));
  }
}

}  // namespace strata
