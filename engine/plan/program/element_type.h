// What the elements of an operand are, beyond what kernels compute with.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/moment_format.h"
#include "base/nth.h"

namespace strata {

enum class ElementType : std::uint8_t {
  byte,  ///< whatever the instructions that share the buffer agree on
  int32,
  fp32,
  bf16,
  fp16,
  fp64,
  low_half,  ///< of an fp32 value, whose high half is a bf16 parameter: optim/split_master.h
  packed,    ///< bytes of a flat parameter in its packed form: optim/packing.h
  coded      ///< bytes of a moment in blocks of codes: optim/moment_codes.h
};

constexpr Bytes size_of(ElementType type) {
  constexpr std::array<Bytes, 9> kSizes = {1, 4, 4, 2, 2, 8, 2, 1, 1};
  return nth(kSizes, type);
}

constexpr std::string_view name_of(ElementType type) {
  constexpr std::array<std::string_view, 9> kNames = {"byte", "int32",    "fp32",   "bf16", "fp16",
                                                      "fp64", "low_half", "packed", "coded"};
  return nth(kNames, type);
}

constexpr ElementType element_type(DType dtype) {
  constexpr std::array kTypes = {ElementType::fp32, ElementType::bf16, ElementType::fp16};
  return nth(kTypes, dtype);
}

constexpr ElementType element_type(MomentFormat format) {
  constexpr std::array kTypes = {ElementType::fp32, ElementType::bf16, ElementType::coded};
  return nth(kTypes, format);
}

/// REQUIRES: moments are stored so.
constexpr MomentFormat moment_format_of(ElementType type) {
  if (type == ElementType::coded) return MomentFormat::coded;
  return type == ElementType::bf16 ? MomentFormat::bf16 : MomentFormat::fp32;
}

/// Throws std::logic_error if kernels compute with no such elements.
constexpr DType dtype_of(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      return DType::fp32;
    case ElementType::bf16:
      return DType::bf16;
    case ElementType::fp16:
      return DType::fp16;
    default:
      throw std::logic_error("an operand's elements are of no type that kernels compute with");
  }
}

}  // namespace strata
