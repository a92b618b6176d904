// A safetensors file: the input is its header, to which the right size is given, and up to 1 KiB of tensors;
// or the whole file.
#include <cstring>

#include "engine/run/checkpoint/safetensors.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

void read_file_of(const std::string& content) {
  expect_read_or_refused([&] {
    const SafetensorsReader file(write("file.safetensors", content));
    for (const auto& entry : file.tensors()) {
      float value = 0;
      const std::span<float> one(&value, entry.second.elements > 0 ? 1 : 0);
      expect_read_or_refused([&] { file.read(entry.first, 0, one); });
      expect_read_or_refused([&] { file.read(entry.first, entry.second.elements - 1, one); });
    }
  });
}

void read_safetensors(std::string_view input) {
  read_file_of(std::string(input));
  const std::string_view header = next_part(input);
  const std::uint64_t size = header.size();
  std::string content(sizeof(size), '\0');
  std::memcpy(content.data(), &size, sizeof(size));
  read_file_of(content + std::string(header) + std::string(std::min<std::size_t>(input.size(), 1024), 'x'));
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(safetensors, strata::fuzz::read_safetensors)
