#include <algorithm>
#include <cassert>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/bytes.h"
#include "base/nth.h"
#include "engine/run/checkpoint/safetensors.h"

namespace strata {
namespace {

/// Header size, header, and blanks so that the tensors start at a multiple of 8 bytes, as the format wants.
std::string header_bytes(DType dtype, const std::vector<TensorToWrite>& tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::int64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::int64_t end = offset + tensor.elements() * size_of(dtype);
    header[tensor.name] = {{"dtype", dtype == DType::fp32 ? "F32" : "BF16"},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  resize(text, align_up(std::ssize(text), 8), ' ');
  const std::uint64_t size = text.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  return bytes + text;
}

}  // namespace

std::int64_t TensorToWrite::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

SafetensorsWriter::SafetensorsWriter(FileSystem& file_system, const std::filesystem::path& path, DType dtype,
                                     const std::vector<TensorToWrite>& tensors)
    : file_(file_system, path), dtype_(dtype) {
  const std::string header = header_bytes(dtype, tensors);
  file_.write(std::as_bytes(std::span(header)));
  for (const TensorToWrite& tensor : tensors) remaining_elements_ += tensor.elements();
  if (dtype == DType::bf16) buffer_.resize(MiB / 2);
}

Bytes SafetensorsWriter::file_bytes(DType dtype, const std::vector<TensorToWrite>& tensors) {
  Bytes bytes = std::ssize(header_bytes(dtype, tensors));
  for (const TensorToWrite& tensor : tensors) bytes += tensor.elements() * size_of(dtype);
  return bytes;
}

void SafetensorsWriter::write(std::span<const float> values) {
  assert(std::ssize(values) <= remaining_elements_);
  remaining_elements_ -= std::ssize(values);
  if (dtype_ == DType::fp32) {
    file_.write(std::as_bytes(values));
    return;
  }
  while (!values.empty()) {
    const auto piece = std::span(buffer_).first(std::min(buffer_.size(), values.size()));
    std::transform(values.begin(), values.begin() + std::ssize(piece), piece.begin(),
                   [](float value) { return bfloat16(value); });
    file_.write(std::as_bytes(piece));
    values = values.subspan(piece.size());
  }
}

void SafetensorsWriter::finish() {
  assert(remaining_elements_ == 0);
  file_.finish();
}

}  // namespace strata
