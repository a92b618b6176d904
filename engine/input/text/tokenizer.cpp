#include "engine/input/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "engine/input/text/bounds.h"
#include "engine/input/text/byte_characters.h"
#include "engine/input/text/decoder.h"
#include "engine/input/text/line_cuts.h"
#include "engine/input/text/model.h"
#include "engine/input/text/normalizer.h"
#include "engine/input/text/pieces.h"
#include "engine/input/text/post_processor.h"
#include "engine/input/text/pre_tokenizer.h"
#include "engine/input/text/utf8.h"
#include "engine/input/text/word_cache.h"

namespace strata::text {
namespace {

/// The largest files have vocabularies of 262,144 tokens and half a million merges. Each merge is a list.
constexpr JsonBudget kBudget{.bytes = 200'000'000, .values = 8'000'000};
constexpr std::size_t kMostTextBytes = (std::size_t{1} << 31) - 1;  // ICU counts in 32 bits

}  // namespace

/// What one call of encode() needs besides the file, kept for later calls.
class Tokenizer::Encoder {
 public:
  void encode(const Parts& parts, std::string_view text, std::vector<std::int32_t>& ids);

 private:
  void normalize(const Parts& parts, std::string_view text);
  void append_ids(const Parts& parts, std::string_view word, std::vector<std::int32_t>& ids);
  bool append_known(std::string_view word, std::vector<std::int32_t>& ids) const;
  void append_unknown(const Model& model, std::string_view word, std::string_view key,
                      std::vector<std::int32_t>& ids);
  void append_part(const Model& model, std::string_view part, std::vector<std::int32_t>& ids);

  Pieces pieces_;
  NormalizedText normalized_;
  std::string byte_characters_;
  WordCache cache_;
};

struct Tokenizer::Parts {
  Normalize normalize;  ///< empty: texts stay as they are
  PreTokenizer pre_tokenizer;
  std::unique_ptr<Model> model;
  AddedTokens added;
  Template around = plain_template();
  bool has_line_cuts = false;
  Decode decode;  ///< empty: tokens with spaces between them

  std::mutex mutex;
  std::vector<std::unique_ptr<Encoder>> idle;  ///< by mutex: encoders that no thread uses

  explicit Parts(const JsonField& field);
  void encode(std::string_view text, std::vector<std::int32_t>& ids);
};

Tokenizer::Parts::Parts(const JsonField& field) {
  field.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                    "post_processor", "decoder", "model"});
  if (const auto version = field.find("version"); version && version->text() != "1.0") {
    version->refuse("only version '1.0' is known");
  }
  model = read_model(field.at("model"));
  if (const auto part = field.find("normalizer")) normalize = read_normalizer(*part);
  if (const auto part = field.find("pre_tokenizer")) pre_tokenizer = read_pre_tokenizer(*part);
  if (const auto part = field.find("added_tokens"))
    added = AddedTokens(*part, model->vocabulary(), normalize);
  if (const auto part = field.find("post_processor")) around = read_post_processor(*part);
  if (const auto part = field.find("decoder")) decode = read_decoder(*part);
  has_line_cuts =
      text::has_line_cuts(field.value()) && std::ranges::count(around, true, &TemplatePart::is_text) == 1;
}

void Tokenizer::Encoder::normalize(const Parts& parts, std::string_view text) {
  const std::size_t most_bytes = most_bytes_from(text.size());
  std::size_t made = 0;  // of all parts together
  pieces_.clear(most_bytes);
  parts.added.split(text, false, [&](std::string_view part, std::int32_t id) {
    const bool is_first = part.data() == text.data();
    if (id != Piece::kNoId) {
      pieces_.add({}, is_first, id);
      return;
    }
    normalized_.text.assign(part);
    normalized_.is_first = is_first;
    normalized_.most_bytes = most_bytes - made;
    if (parts.normalize) parts.normalize(normalized_);
    made += normalized_.text.size();
    check_growth(made, most_bytes);
    const std::string_view whole = normalized_.text;
    parts.added.split(whole, true, [&](std::string_view piece, std::int32_t piece_id) {
      pieces_.add(piece, normalized_.is_first && piece.data() == whole.data(), piece_id);
    });
  });
}

bool Tokenizer::Encoder::append_known(std::string_view word, std::vector<std::int32_t>& ids) const {
  const auto known = cache_.find(word);
  ids.insert(ids.end(), known.begin(), known.end());
  return !known.empty();
}

/// `key` is what the word is known by: the word itself, or the bytes that its characters stand for.
void Tokenizer::Encoder::append_unknown(const Model& model, std::string_view word, std::string_view key,
                                        std::vector<std::int32_t>& ids) {
  const std::size_t begin = ids.size();
  model.encode(word, ids);
  if (ids.size() > begin) cache_.insert(key, std::span(ids).subspan(begin));
}

void Tokenizer::Encoder::append_ids(const Parts& parts, std::string_view word,
                                    std::vector<std::int32_t>& ids) {
  if (append_known(word, ids)) return;
  if (parts.pre_tokenizer.ends_in_byte_characters) {
    byte_characters_.clear();
    append_byte_characters(word, byte_characters_);
    append_unknown(*parts.model, byte_characters_, word, ids);
    return;
  }
  while (word.size() > WordCache::kMostBytes) {
    const std::string_view beginning = word.substr(0, parts.model->independent_beginning(word));
    append_part(*parts.model, beginning, ids);
    word.remove_prefix(beginning.size());
  }
  if (!word.empty()) append_part(*parts.model, word, ids);
}

/// `part` is a word, or a part of one that is independent of the rest.
void Tokenizer::Encoder::append_part(const Model& model, std::string_view part,
                                     std::vector<std::int32_t>& ids) {
  if (!append_known(part, ids)) append_unknown(model, part, part, ids);
}

void Tokenizer::Encoder::encode(const Parts& parts, std::string_view text, std::vector<std::int32_t>& ids) {
  normalize(parts, text);
  for (const PreTokenize& step : parts.pre_tokenizer.steps) step(pieces_);
  for (const Piece& piece : pieces_.list()) {
    if (piece.id != Piece::kNoId) {
      ids.push_back(piece.id);
    } else {
      append_ids(parts, pieces_.text(piece), ids);
    }
  }
}

void Tokenizer::Parts::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  std::unique_ptr<Encoder> encoder;
  {
    const std::lock_guard lock(mutex);
    if (!idle.empty()) {
      encoder = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (!encoder) encoder = std::make_unique<Encoder>();
  encoder->encode(*this, text, ids);
  const std::lock_guard lock(mutex);
  idle.push_back(std::move(encoder));
}

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::read(const std::filesystem::path& file) {
  const nlohmann::json json = read_json_object(file, kBudget);
  return Tokenizer(std::make_unique<Parts>(JsonField(json, file.string())));
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string& name) {
  const nlohmann::json parsed = parse_json(json, name, kBudget);
  return Tokenizer(std::make_unique<Parts>(JsonField(parsed, name)));
}

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids, AddSpecial add_special) const {
  if (text.size() > kMostTextBytes) {
    throw ConfigError(fmt::format("a text of {} bytes is longer than the {} that are encoded at once: cut it",
                                  text.size(), kMostTextBytes));
  }
  std::string buffer;
  const std::string_view valid = make_valid(text, buffer);
  for (const TemplatePart& part : parts_->around) {
    if (part.is_text) {
      parts_->encode(valid, ids);
    } else if (add_special == AddSpecial::yes) {
      ids.insert(ids.end(), part.ids.begin(), part.ids.end());
    }
  }
}

std::vector<std::int32_t> Tokenizer::ids_before_text() const {
  std::vector<std::int32_t> ids;
  for (const TemplatePart& part : parts_->around) {
    if (part.is_text) break;
    ids.insert(ids.end(), part.ids.begin(), part.ids.end());
  }
  return ids;
}

bool Tokenizer::has_line_cuts() const {
  return parts_->has_line_cuts;
}

std::vector<std::size_t> Tokenizer::section_begins(std::string_view text) const {
  std::vector<std::size_t> begins = {0};
  parts_->added.split(text, false, [&](std::string_view part, std::int32_t id) {
    const auto begin = static_cast<std::size_t>(part.data() - text.data());
    if (id != Piece::kNoId && begin > 0) begins.push_back(begin);
  });
  return begins;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    auto token = parts_->added.decoded(id);
    if (!token) token = parts_->model->vocabulary().token(id);
    if (token && !(skip_special && parts_->added.is_special(*token))) tokens.emplace_back(*token);
  }
  if (parts_->decode) parts_->decode(tokens);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !parts_->decode) text += ' ';
    text += tokens[i];
  }
  return text;
}

std::string Tokenizer::spelling(std::int32_t id) const {
  if (const auto added = parts_->added.decoded(id)) return std::string(*added);
  std::string_view token = parts_->model->vocabulary().token(id).value_or("");
  std::string bytes;
  if (parts_->pre_tokenizer.ends_in_byte_characters) {
    for_each_character(token, [&](char32_t c, std::size_t, std::size_t) {
      if (const auto byte = byte_of_character(c)) bytes += *byte;
    });
    return bytes;
  }
  if (const auto byte = byte_of_token(token)) return std::string(1, *byte);
  constexpr std::string_view kSpace = "▁";
  while (!token.empty()) {
    const std::size_t size = std::min(token.find(kSpace), token.size());
    bytes += token.substr(0, size);
    if (size < token.size()) bytes += ' ';
    token.remove_prefix(std::min(size + kSpace.size(), token.size()));
  }
  return bytes;
}

bool Tokenizer::is_added(std::int32_t id) const {
  return parts_->added.decoded(id).has_value();
}

std::size_t Tokenizer::vocabulary_size() const {
  const auto is_new = [this](const AddedToken& token) { return !parts_->model->vocabulary().id(token.text); };
  return parts_->model->vocabulary().size() +
         static_cast<std::size_t>(std::ranges::count_if(parts_->added.list(), is_new));
}

std::int32_t Tokenizer::end_of_ids() const {
  std::int32_t end = parts_->model->vocabulary().end();
  for (const AddedToken& token : parts_->added.list()) end = std::max(end, token.id + 1);
  // A post-processor names ids by itself, whether or not they have tokens.
  for (const TemplatePart& part : parts_->around)
    for (const std::int32_t id : part.ids) end = std::max(end, id + 1);
  return end;
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  const auto added = parts_->added.id(token);
  return added ? added : parts_->model->vocabulary().id(token);
}

const std::vector<AddedToken>& Tokenizer::added_tokens() const {
  return parts_->added.list();
}

}  // namespace strata::text
