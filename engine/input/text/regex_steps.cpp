#include "engine/input/text/regex_steps.h"

#include <fmt/format.h>
#define ONIG_ESCAPE_UCHAR_COLLISION  // UChar is ICU's
#include <oniguruma.h>

#include <limits>
#include <set>
#include <string>

#include "base/error.h"
#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

/// Belongs to the call of Oniguruma that this thread is in. Outside of a call nothing is limited.
struct CallInProgress {
  const OnigUChar* end = nullptr;
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
};
thread_local CallInProgress in_progress;

int counted_length(const OnigUChar* at) {
  if (--in_progress.left >= 0 || in_progress.end == nullptr) return ONIG_ENCODING_UTF8->mbc_enc_len(at);
  constexpr std::ptrdiff_t kMost = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp<std::ptrdiff_t>(in_progress.end - at, 1, kMost));
}

OnigUChar* counted_head(const OnigUChar* start, const OnigUChar* at) {
  --in_progress.left;
  return ONIG_ENCODING_UTF8->left_adjust_char_head(start, at);
}

/// Oniguruma then searches for letters by characters rather than by bytes.
int never(const OnigUChar*, const OnigUChar*) {
  return 0;
}

/// One atom of a pattern, as far as it matters what a quantifier behind it repeats.
class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : pattern_(pattern) {}

  UncountedLoops read() {
    while (at_ < pattern_.size()) read_atom();
    return loops_;
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }

  void read_atom() {
    const char first = pattern_[at_];
    if (first == '*' || first == '+' || (first == '{' && is_number(peek(1)))) {
      loops_.has_any = loops_.has_any || compares_;
      at_ += 1;
      if (first == '{') at_ = std::min(pattern_.find('}', at_), pattern_.size() - 1) + 1;
    } else if (first == '\\') {
      read_escape();
    } else if (first == '[') {
      read_class();
    } else if (first == '(') {
      read_group();
    } else if (first == ')') {
      compares_ = true;
      ++at_;
    } else if (first == '.') {
      compares_ = false;
      ++at_;
    } else {
      if (first != '?' && first != '|' && first != '^' && first != '$') add_letter(first);
      ++at_;
    }
  }

  static bool is_number(char letter) { return (letter >= '0' && letter <= '9') || letter == ','; }

  void add_letter(char letter) {
    loops_.bytes.set(static_cast<unsigned char>(letter));
    compares_ = true;
  }

  /// What stands for some letter, or for what was matched before.
  void add_any_letter() {
    loops_.bytes.set();
    compares_ = true;
  }

  void read_escape() {
    const char kind = peek(1);
    at_ = std::min(at_ + 2, pattern_.size());
    constexpr std::string_view kClasses = "sSdDwWhHNO", kControls = "nrtfvae",
                               kControlBytes = "\n\r\t\f\v\a\x1b";
    constexpr std::string_view kOthers = "0123456789kgxuocCMKXRyY";
    if (kind == 'p' || kind == 'P') {
      at_ = std::min(pattern_.find('}', at_), pattern_.size() - 1) + 1;
      compares_ = false;
    } else if (kClasses.find(kind) != std::string_view::npos) {
      compares_ = false;
    } else if (const std::size_t control = kControls.find(kind); control != std::string_view::npos) {
      add_letter(kControlBytes[control]);
    } else if (kOthers.find(kind) != std::string_view::npos) {
      add_any_letter();
      if ((kind >= '1' && kind <= '9') || kind == 'k' || kind == 'g') loops_.has_any = true;
    } else {
      add_letter(kind);
    }
  }

  /// A class of one letter is that letter.
  void read_class() {
    const std::size_t begin = ++at_;
    std::set<std::string_view> letters;
    bool is_more = peek() == '^';
    for (int depth = 1; at_ < pattern_.size();) {
      const std::size_t letter = at_;
      const char first = pattern_[at_];
      if (first == ']' && at_ > begin && --depth == 0) break;
      if (first == '\\') {
        at_ = std::min(at_ + 2, pattern_.size());
        is_more = is_more || peek() == '{';
        letters.insert(pattern_.substr(letter, at_ - letter));
        continue;
      }
      depth += first == '[' ? 1 : 0;
      is_more = is_more || first == '[' || first == '-' || first == '&';
      at_ = std::min(at_ + character_bytes(first), pattern_.size());
      letters.insert(pattern_.substr(letter, at_ - letter));
    }
    at_ = std::min(at_ + 1, pattern_.size());
    compares_ = false;
    if (is_more || letters.size() > 1) return;
    for (const std::string_view letter : letters) {
      if (letter.front() == '\\') add_any_letter();
      for (const char byte : letter) add_letter(byte);
    }
  }

  /// Where case does not count, other letters are compared than the pattern has.
  void read_group() {
    ++at_;
    if (peek() != '?') return;
    const std::size_t begin = ++at_;
    while (at_ < pattern_.size() &&
           std::string_view("imxWDSPyg{}-").find(pattern_[at_]) != std::string_view::npos)
      ++at_;
    if (pattern_.substr(begin, at_ - begin).find('i') != std::string_view::npos) loops_.bytes.set();
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  bool compares_ = false;  ///< what was read last has letters, or is a group that may
  UncountedLoops loops_;
};

}  // namespace

OnigEncodingTypeST* counting_utf8() {
  static OnigEncodingType encoding = [] {
    OnigEncodingType counting = *ONIG_ENCODING_UTF8;
    counting.mbc_enc_len = counted_length;
    counting.left_adjust_char_head = counted_head;
    counting.is_allowed_reverse_match = never;
    return counting;
  }();
  return &encoding;
}

CountedCharacters::CountedCharacters(std::string_view text, std::int64_t most) {
  in_progress = {reinterpret_cast<const OnigUChar*>(text.data()) + text.size(), most};
}

CountedCharacters::~CountedCharacters() {
  in_progress = {};
}

std::int64_t CountedCharacters::left() const {
  return in_progress.left;
}

std::size_t UncountedLoops::run_length(std::string_view text, std::size_t begin) const {
  std::size_t end = begin;
  while (end < text.size() && bytes.test(static_cast<unsigned char>(text[end]))) ++end;
  return end - begin;
}

UncountedLoops find_uncounted_loops(std::string_view pattern) {
  return PatternReader(pattern).read();
}

namespace {

constexpr std::int64_t kSteps = 20'000'000, kStepsOfAByte = 200;
/// Steps back that are not counted, if each compares little and if it may compare much.
constexpr std::int64_t kFirstLimit = 1000, kLeastFirstLimit = 16;
/// Bytes compared that count as a step: where a call begins, and where one steps back often.
constexpr std::size_t kBytesOfABegin = 1, kBytesOfAStepBack = 4;

std::int64_t most_steps(std::string_view text) {
  return kSteps + kStepsOfAByte * std::ssize(text);
}

}  // namespace

RegexSteps::RegexSteps(std::string_view text, const UncountedLoops& loops)
    : text_(text), loops_(&loops), left_(most_steps(text)), first_limit_(kFirstLimit) {
  if (!loops.has_any) return;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = loops.run_length(text, i);
    longest = std::max(longest, length);
    i += length + 1;
  }
  weight_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(longest / kBytesOfAStepBack));
  first_limit_ = std::max(kLeastFirstLimit, kFirstLimit / weight_);
}

void RegexSteps::begin_at(std::size_t begin) {
  if (!loops_->has_any) return;
  if (begin >= run_end_) run_end_ = begin + loops_->run_length(text_, begin);
  left_ -= static_cast<std::int64_t>((run_end_ - std::min(begin, run_end_)) / kBytesOfABegin);
}

void RegexSteps::check() const {
  if (left_ >= 0) return;
  throw ConfigError(
      fmt::format("a regular expression of the tokenizer takes more than {} steps for a text of {} bytes: "
                  "cut the text, or take "
                  "another tokenizer",
                  most_steps(text_), text_.size()));
}

}  // namespace strata::text
