// A .bin file of token ids (2 bytes, 4 bytes, llm.c's), with a Megatron index if the input has a second
// part, and a pattern of file names if it has a third.
#include <array>

#include "engine/input/data/file_pattern.h"
#include "engine/input/data/token_files.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

void read_all(const std::string& path, std::int64_t token_bytes, bool by_documents) {
  TokenSegment segment = open_token_file(path, token_bytes);
  const std::int64_t tokens = segment.tokens();
  const TokenSource source({std::move(segment)}, 50257, by_documents);
  std::array<std::int32_t, 16> memory{};
  for (std::int64_t first = 0; first < tokens; first += std::ssize(memory)) {
    const auto numbers = std::span(memory).first(
        static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(memory), tokens - first)));
    source.read(first, numbers);
    if (!by_documents) continue;
    source.leave_out_beginnings(first, numbers);
    source.read_places(first, 0, numbers);
  }
}

void read_tokens(std::string_view input) {
  const std::string path = write("tokens.bin", next_part(input)).string();
  const std::string_view index = next_part(input);
  std::filesystem::remove(folder() / "tokens.idx");
  if (!index.empty()) write("tokens.idx", index);
  for (const std::int64_t token_bytes : {2, 4, 8}) {
    for (const bool by_documents : {false, true})
      expect_read_or_refused([&] { read_all(path, token_bytes, by_documents); });
  }
  if (input.find('\0') == std::string_view::npos && input.find("..") == std::string_view::npos) {
    expand_pattern((folder() / std::filesystem::path(input).relative_path()).string());
  }
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(tokens, strata::fuzz::read_tokens)
