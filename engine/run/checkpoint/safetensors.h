// The safetensors format (github.com/huggingface/safetensors): 8 bytes of header size, a JSON header with
// each tensor's dtype, shape and offsets, then the tensors. The reader trusts nothing it has not checked and
// reads any stretch of a tensor; the writer streams, so neither holds more than a small buffer. A reader may
// be used from several threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"

namespace strata {

/// A tensor as a file describes it.
struct StoredTensor {
  std::string dtype;  ///< as written in the file: "F32", "BF16", "F16", or one that only has a size here
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
  std::int64_t offset = 0;  ///< bytes from the start of the file
  std::int64_t bytes = 0;
};

/// Text of a shape for errors: "[768, 2304]".
std::string format_shape(std::span<const std::int64_t> shape);

class SafetensorsReader {
 public:
  /// Throws ConfigError that names the file if anything about it is not as the format demands; a file that
  /// ends early is called truncated, with the bytes it should have and those it has.
  explicit SafetensorsReader(const std::filesystem::path& path, FileSystem& file_system = FileSystem::real());

  const std::filesystem::path& path() const { return file_.path(); }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  /// Throws ConfigError if there is no such tensor.
  const StoredTensor& at(const std::string& name) const;

  /// Elements [first, first + out.size()) of a tensor of F32, BF16 or F16 as floats. Throws ConfigError for
  /// other dtypes.
  void read(const std::string& name, std::int64_t first, std::span<float> out) const;

 private:
  FileReader file_;
  std::map<std::string, StoredTensor> tensors_;
};

/// A tensor to be written.
struct TensorToWrite {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t elements() const;
};

/// Writes a file of tensors of one dtype, in the order given.
class SafetensorsWriter {
 public:
  SafetensorsWriter(FileSystem& file_system, const std::filesystem::path& path, DType dtype,
                    const std::vector<TensorToWrite>& tensors);
  /// The size of a file with these tensors.
  static Bytes file_bytes(DType dtype, const std::vector<TensorToWrite>& tensors);

  /// The next elements, of one tensor or of several.
  void write(std::span<const float> values);
  /// Returns when the file is on the disk. REQUIRES: every element was written.
  void finish();

  const std::filesystem::path& path() const { return file_.path(); }
  /// These are of the whole file. REQUIRES: finish() was called.
  std::int64_t bytes() const { return file_.bytes(); }
  std::uint64_t checksum() const { return file_.checksum(); }

 private:
  FileWriter file_;
  DType dtype_;
  std::int64_t remaining_elements_ = 0;
  std::vector<bfloat16> buffer_;  ///< rounded values on their way to the file
};

}  // namespace strata
