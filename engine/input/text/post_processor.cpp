#include "engine/input/text/post_processor.h"

#include <fmt/format.h>

#include <string>

namespace strata::text {
namespace {

std::vector<std::int32_t> read_ids(const JsonField& special_tokens, const std::string& name) {
  std::vector<std::int32_t> ids;
  for (const JsonField& id : special_tokens.at(name).at("ids").elements()) ids.push_back(id.id());
  return ids;
}

Template read_template_processor(const JsonField& field) {
  field.allow_only({"type", "single", "pair", "special_tokens"});
  Template parts;
  for (const JsonField& part : field.at("single").elements()) {
    part.allow_only({"Sequence", "SpecialToken"});
    if (const auto token = part.find("SpecialToken")) {
      parts.push_back({false, read_ids(field.at("special_tokens"), token->at("id").text())});
      continue;
    }
    if (part.at("Sequence").at("id").text() != "A") part.refuse("a single text has the sequence 'A' only");
    parts.push_back({true, {}});
  }
  return parts;
}

/// ["[SEP]", 102].
std::int32_t read_id_of_token(const JsonField& field) {
  const auto elements = field.elements();
  if (elements.size() != 2) field.refuse("a token is ['text', id]");
  return elements[1].id();
}

Template read_bert_processor(const JsonField& field) {
  field.allow_only({"type", "sep", "cls"});
  return {
      {false, {read_id_of_token(field.at("cls"))}}, {true, {}}, {false, {read_id_of_token(field.at("sep"))}}};
}

Template read_roberta_processor(const JsonField& field) {
  field.allow_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  return {
      {false, {read_id_of_token(field.at("cls"))}}, {true, {}}, {false, {read_id_of_token(field.at("sep"))}}};
}

/// It moves offsets. There are none here.
Template read_byte_level_processor(const JsonField& field) {
  field.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  return plain_template();
}

Template read_sequence_processor(const JsonField& field) {
  field.allow_only({"type", "processors"});
  Template made = plain_template();
  for (const JsonField& element : field.at("processors").elements()) {
    Template next = read_post_processor(element);
    const bool adds = next.size() != 1 || !next[0].is_text;
    const bool has_added = made.size() != 1 || !made[0].is_text;
    if (adds && has_added) element.refuse("a second post-processor that adds tokens is not supported");
    if (adds) made = std::move(next);
  }
  return made;
}

}  // namespace

Template plain_template() {
  return {{true, {}}};
}

Template read_post_processor(const JsonField& field) {
  const std::string type = field.at("type").text();
  if (type == "TemplateProcessing") return read_template_processor(field);
  if (type == "BertProcessing") return read_bert_processor(field);
  if (type == "RobertaProcessing") return read_roberta_processor(field);
  if (type == "ByteLevel") return read_byte_level_processor(field);
  if (type == "Sequence") return read_sequence_processor(field);
  field.refuse(fmt::format("post-processor '{}' is not supported", type));
}

}  // namespace strata::text
