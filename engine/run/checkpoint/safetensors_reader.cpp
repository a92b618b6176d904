#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bytes.h"
#include "base/excerpt.h"
#include "base/json_text.h"
#include "base/lfs_pointer.h"
#include "base/nth.h"
#include "engine/run/checkpoint/refusals.h"
#include "engine/run/checkpoint/safetensors.h"

namespace strata {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian, and read as they are");

constexpr std::int64_t kPrefixBytes = 8;

[[noreturn]] void refuse_truncated(const FileReader& file, std::int64_t expected) {
  refuse(file.path(),
         fmt::format("the file is truncated: its header promises {} bytes, it has {}; copy it again",
                     expected, file.size()));
}

std::optional<std::int64_t> bytes_per_element(const std::string& dtype) {
  static const std::map<std::string, std::int64_t> kSizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"U16", 2}, {"I16", 2}, {"F16", 2},
      {"BF16", 2}, {"U32", 4}, {"I32", 4}, {"F32", 4},     {"U64", 8},     {"I64", 8}, {"F64", 8}};
  const auto found = kSizes.find(dtype);
  return found == kSizes.end() ? std::nullopt : std::optional(found->second);
}

/// The JSON header. `data_start` becomes the first byte behind it.
nlohmann::json read_header(const FileReader& file, std::int64_t& data_start) {
  auto beginning = sized<std::string>(std::min(file.size(), std::ssize(kLfsPointer) + 0L));
  file.read(0, std::as_writable_bytes(std::span(beginning)));
  if (is_lfs_pointer(beginning)) refuse(file.path(), std::string(kLfsAdvice));
  if (file.size() < kPrefixBytes) refuse_truncated(file, kPrefixBytes);
  std::uint64_t size = 0;
  file.read(0, std::as_writable_bytes(std::span(&size, 1)));
  if (size == 0 || size > static_cast<std::uint64_t>(JsonBudget().bytes)) {
    refuse(file.path(), fmt::format("not a safetensors file: a header of {} bytes is not possible", size));
  }
  data_start = kPrefixBytes + static_cast<std::int64_t>(size);
  if (file.size() < data_start) refuse_truncated(file, data_start);
  std::string text(size, '\0');
  file.read(kPrefixBytes, std::as_writable_bytes(std::span(text)));
  nlohmann::json header = parse_json(text, file.path().string() + ", header");
  if (!header.is_object()) refuse(file.path(), "not a safetensors file: its header is not a JSON object");
  return header;
}

/// A JSON array of integers that are not negative; nothing if it is something else.
std::optional<std::vector<std::int64_t>> integers(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return std::nullopt;
  std::vector<std::int64_t> values;
  for (const nlohmann::json& value : *found) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX) return std::nullopt;
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

/// The product of the shape times the size of an element; nothing if it overflows.
std::optional<std::int64_t> checked_bytes(std::span<const std::int64_t> shape, std::int64_t element) {
  std::int64_t bytes = element;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

StoredTensor parse_tensor(const FileReader& file, const std::string& name, const nlohmann::json& entry,
                          std::int64_t data_start) {
  const auto malformed = [&](const std::string& what) {
    refuse(file.path(), fmt::format("tensor {} has {}; the file is damaged or not safetensors", name, what));
  };
  if (!entry.is_object()) malformed("no description");
  if (!entry.contains("dtype") || !entry["dtype"].is_string()) malformed("no dtype");
  const auto shape = integers(entry, "shape");
  const auto offsets = integers(entry, "data_offsets");
  if (!shape) malformed("no valid shape");
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) malformed("no valid data_offsets");

  StoredTensor tensor;
  tensor.dtype = entry["dtype"].get<std::string>();
  tensor.shape = *shape;
  const auto element = bytes_per_element(tensor.dtype);
  if (!element) malformed(fmt::format("the unknown dtype {}", excerpt(tensor.dtype)));
  const auto bytes = checked_bytes(tensor.shape, *element);
  tensor.bytes = (*offsets)[1] - (*offsets)[0];
  if (bytes != tensor.bytes) {
    malformed(fmt::format("{} bytes, which is not what {} of shape {} takes", tensor.bytes, tensor.dtype,
                          format_shape(tensor.shape)));
  }
  tensor.elements = tensor.bytes / *element;
  if ((*offsets)[0] > INT64_MAX - data_start - tensor.bytes) malformed("an offset beyond any file");
  tensor.offset = data_start + (*offsets)[0];
  return tensor;
}

/// The tensors must fill the file from `data_start` on, without holes and without overlap.
void check_coverage(const FileReader& file, const std::map<std::string, StoredTensor>& tensors,
                    std::int64_t data_start) {
  std::vector<const std::pair<const std::string, StoredTensor>*> order;
  order.reserve(tensors.size());
  for (const auto& entry : tensors) order.push_back(&entry);
  std::ranges::sort(order, {},
                    [](const auto* entry) { return std::pair(entry->second.offset, entry->second.bytes); });
  std::int64_t end = data_start;
  for (const auto* entry : order) {
    const StoredTensor& tensor = entry->second;
    if (tensor.offset != end) {
      refuse(file.path(), fmt::format("tensor {} {}; the file is damaged", entry->first,
                                      tensor.offset < end ? "overlaps another one" : "has a hole before it"));
    }
    end += tensor.bytes;
  }
  if (file.size() < end) refuse_truncated(file, end);
  if (file.size() > end) {
    refuse(file.path(),
           fmt::format("{} bytes follow the last tensor; the file is damaged", file.size() - end));
  }
}

/// IEEE half precision to single; exact.
float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000U} << 16;
  const std::uint32_t magnitude = half & 0x7fffU;
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
  // A subnormal of half precision is a normal number of single precision: let a product normalise it (2^112
  // rebiases).
  return std::bit_cast<float>(sign |
                              std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112F));
}

/// Reads `out.size()` 16-bit values and converts each.
template <typename Convert>
void read_halves(const FileReader& file, std::int64_t offset, std::span<float> out, Convert convert) {
  std::vector<std::uint16_t> buffer(std::min<std::size_t>(out.size(), MiB / 2));
  while (!out.empty()) {
    const auto piece = std::span(buffer).first(std::min(buffer.size(), out.size()));
    file.read(offset, std::as_writable_bytes(piece));
    std::ranges::transform(piece, out.begin(), convert);
    out = out.subspan(piece.size());
    offset += static_cast<std::int64_t>(piece.size_bytes());
  }
}

}  // namespace

std::string format_shape(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path, FileSystem& file_system)
    : file_(path, file_system) {
  std::int64_t data_start = 0;
  const nlohmann::json header = read_header(file_, data_start);
  for (const auto& item : header.items()) {
    if (item.key() == "__metadata__") continue;
    tensors_.emplace(item.key(), parse_tensor(file_, item.key(), item.value(), data_start));
  }
  check_coverage(file_, tensors_, data_start);
}

const StoredTensor& SafetensorsReader::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) refuse(path(), fmt::format("tensor {} is missing", name));
  return found->second;
}

void SafetensorsReader::read(const std::string& name, std::int64_t first, std::span<float> out) const {
  const StoredTensor& tensor = at(name);
  if (first < 0 || first > tensor.elements || std::ssize(out) > tensor.elements - first) {
    refuse(path(),
           fmt::format("tensor {} has {} elements, too few for what is asked of it", name, tensor.elements));
  }
  if (tensor.dtype == "F32") {
    file_.read(tensor.offset + 4 * first, std::as_writable_bytes(out));
  } else if (tensor.dtype == "BF16") {
    read_halves(file_, tensor.offset + 2 * first, out,
                [](std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); });
  } else if (tensor.dtype == "F16") {
    read_halves(file_, tensor.offset + 2 * first, out, half_to_float);
  } else {
    refuse(path(), fmt::format("tensor {} is {}; supported: F32, BF16, F16", name, tensor.dtype));
  }
}

}  // namespace strata
