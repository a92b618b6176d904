// A temporary folder of data files for one test, and the writers of their formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/input/data/token_files.h"
#include "tests/base/temporary_folder.h"

namespace strata {

/// The bytes of integers in their own width.
template <typename T>
std::string packed(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class Corpus {
 public:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Writes a file, with the folders on the way, and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return path(name);
  }

  template <typename T>
  std::string write_llmc(const std::string& name, std::int32_t magic, std::int32_t version,
                         const std::vector<T>& tokens) const {
    std::vector<std::int32_t> header(256, 0);
    header[0] = magic;
    header[1] = version;
    header[2] = static_cast<std::int32_t>(tokens.size());
    return write(name, packed(header) + packed(tokens));
  }

  /// prefix.bin with prefix.idx; every sequence is a document. Returns the prefix.
  template <typename T>
  std::string write_megatron(const std::string& prefix, std::uint8_t type_code,
                             const std::vector<std::vector<T>>& sequences) const {
    std::string data;
    std::vector<std::int32_t> lengths;
    std::vector<std::int64_t> offsets, documents = {0};
    for (const auto& sequence : sequences) {
      offsets.push_back(static_cast<std::int64_t>(data.size()));
      lengths.push_back(static_cast<std::int32_t>(sequence.size()));
      documents.push_back(static_cast<std::int64_t>(lengths.size()));
      data += packed(sequence);
    }
    write(prefix + ".bin", data);
    write(prefix + ".idx", std::string("MMIDIDX\0\0", 9) + packed<std::uint64_t>({1}) +
                               packed<std::uint8_t>({type_code}) +
                               packed<std::uint64_t>({lengths.size(), documents.size()}) + packed(lengths) +
                               packed(offsets) + packed(documents));
    return path(prefix);
  }

 private:
  test::TemporaryFolder folder_;
};

/// The sentence of the ConfigError that `function` throws.
template <typename Function>
std::string refusal(const Function& function) {
  try {
    function();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

/// All ids of a .bin file.
inline std::vector<std::int32_t> ids_in(const std::string& file) {
  const TokenSource source({open_token_file(file, 2)}, 1 << 20);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(source.tokens()));
  source.read(0, tokens);
  return tokens;
}

}  // namespace strata
