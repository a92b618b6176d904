#include "engine/input/data/document_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/config/choices.h"
#include "engine/input/data/file_ending.h"
#include "engine/input/data/foreign_data.h"
#include "engine/input/data/json_scan.h"

namespace strata {
namespace {

[[noreturn]] void refuse_file(const MappedFile& file, const std::string& sentence) {
  throw ConfigError(fmt::format("{}: {}", file.path(), sentence));
}

constexpr const char* kAsText = "take the file as it is with data.format: text (--format text)";

bool is_named_for_lines(const std::string& file) {
  constexpr std::array kEndings = {".jsonl", ".ndjson", ".jsonlines"};
  return std::ranges::any_of(kEndings, [&](const char* ending) { return has_ending(file, ending); });
}

/// Looks at what a file begins with.
class RecordSearch {
 public:
  RecordSearch(const MappedFile& file, const DocumentOptions& options)
      : file_(file), options_(options), all_(file.text()) {
    const std::size_t mark = byte_order_mark(all_);
    layout_ = {.form = DocumentForm::text, .begin = mark, .has_byte_order_mark = mark > 0};
    text_ = without_spaces(all_.substr(mark));
  }

  /// Form text: it has no records.
  DocumentLayout find() {
    if (text_.starts_with('[')) look_at_array();
    if (begins_object(text_)) look_at_object();
    return layout_;
  }

 private:
  void set(DocumentForm form, std::string_view rest) {
    layout_.form = form;
    layout_.begin = static_cast<std::size_t>(rest.data() - all_.data());
  }

  void look_at_array() {
    const std::string_view element = without_spaces(text_.substr(1));
    if (begins_object(element) || element.starts_with("{}")) return set(DocumentForm::array, text_.substr(1));
    if (has_ending(file_.path(), ".json") || options_.format == DataFormat::records)
      refuse_file(
          file_, fmt::format("its array has no objects, so nothing says what of it is trained on: write each "
                             "text as {{\"text\": …}}, or {}",
                             kAsText));
  }

  void look_at_object() {
    const std::size_t end = find_value_end(text_);
    if (end == std::string_view::npos) {
      if (is_asked() || is_record(text_)) set(DocumentForm::lines, text_);
      return;
    }
    const std::string_view object = text_.substr(0, end), behind = without_spaces(text_.substr(end));
    const bool is_followed =
        begins_object(behind) || (behind.starts_with(',') && begins_object(without_spaces(behind.substr(1))));
    if (behind.empty() && !is_record(object) && look_for_list(object)) return;
    if (is_followed || is_asked() || is_record(object)) set(form_of(object), text_);
  }

  static DocumentForm form_of(std::string_view object) {
    return object.find('\n') == std::string_view::npos ? DocumentForm::lines : DocumentForm::values;
  }

  bool is_asked() const { return options_.format == DataFormat::records || is_named_for_lines(file_.path()); }

  bool is_record(std::string_view object) const {
    const std::vector<RawMember> members = members_of(object);
    const auto presence = [&](const std::string& key) {
      const auto found = std::ranges::find(members, key, &RawMember::key);
      if (found == members.end()) return Presence::absent;
      return found->value.starts_with('"') || found->value.starts_with('[') ? Presence::given
                                                                            : Presence::null;
    };
    return !options_.fields.kinds(presence).empty();
  }

  /// Finds the list of records that an object has under one of its keys.
  bool look_for_list(std::string_view object) {
    const std::vector<RawMember> members = members_of(object);
    std::vector<RawMember> lists;
    for (const RawMember& member : members) {
      if (!member.value.starts_with('[')) continue;
      const std::string_view element = without_spaces(member.value.substr(1));
      if (begins_object(element) && (members.size() == 1 || is_record(element))) lists.push_back(member);
    }
    if (lists.empty()) return false;
    if (lists.size() > 1)
      refuse_file(
          file_,
          fmt::format("it has lists of records under \"{}\" and \"{}\": write each to a file of its own",
                      lists[0].key, lists[1].key));
    set(DocumentForm::array, lists.front().value.substr(1));
    layout_.is_under_key = true;
    return true;
  }

  const MappedFile& file_;
  const DocumentOptions& options_;
  std::string_view all_, text_;
  DocumentLayout layout_;
};

}  // namespace

std::size_t byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? kMark.size() : 0;
}

DocumentLayout layout_of_documents(const MappedFile& file, const DocumentOptions& options) {
  const std::size_t mark = byte_order_mark(file.text());
  DocumentLayout layout = {.form = DocumentForm::text, .begin = mark, .has_byte_order_mark = mark > 0};
  if (options.format == DataFormat::text) return layout;
  if (const std::string foreign = foreign_data(file); !foreign.empty())
    refuse_file(file, fmt::format("this is {}, which is not read: write it as UTF-8 text or as .jsonl, or {}",
                                  foreign, kAsText));
  layout = RecordSearch(file, options).find();
  if (layout.form != DocumentForm::text) return layout;
  if (is_named_for_lines(file.path())) {
    layout.form = DocumentForm::lines;
  } else if (options.format == DataFormat::records) {
    refuse_file(file, "data.format is records, and the file begins with no JSON object and no array of such");
  }
  return layout;
}

bool has_records(const std::string& file, const DocumentOptions& options) {
  return layout_of_documents(MappedFile(file), options).form != DocumentForm::text;
}

void require_text(const MappedFile& file, DataFormat format) {
  if (layout_of_documents(file, {.format = format}).form == DocumentForm::text) return;
  refuse_file(
      file,
      fmt::format("it holds JSON records, and data.tokenizer bytes would train on their braces and keys, "
                  "too: set data.tokenizer to auto to have them read, or {}",
                  kAsText));
}

}  // namespace strata
