// The run file's word for every enumerator of engine/config/choices.h, in the order of the enumerators. Used
// to read, print and document the keys, and by reports that name a choice.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "base/nth.h"
#include "engine/config/choices.h"
#include "engine/config/selection.h"

namespace strata {

/// Words<E>::list[i] is the word of the enumerator with value i.
template <typename E>
struct Words;

template <>
struct Words<Recompute> {
  static constexpr std::array<std::string_view, 3> list = {"none", "full", "auto"};
};
template <>
struct Words<Order> {
  static constexpr std::array<std::string_view, 2> list = {"layer_major", "microbatch_major"};
};
template <>
struct Words<PipelineSchedule> {
  static constexpr std::array<std::string_view, 7> list = {
      "gpipe", "1f1b", "interleaved", "zero_bubble", "breadth_first", "pipedream", "pipedream_2bw"};
};
template <>
struct Words<LaneMode> {
  static constexpr std::array<std::string_view, 2> list = {"serial", "overlapped"};
};
template <>
struct Words<PlanSearch> {
  static constexpr std::array<std::string_view, 2> list = {"none", "auto"};
};
template <>
struct Words<DeviceKind> {
  static constexpr std::array<std::string_view, 2> list = {"cpu", "cuda"};
};
template <>
struct Words<NvmeEngine> {
  static constexpr std::array<std::string_view, 3> list = {"auto", "io_uring", "threads"};
};
template <>
struct Words<TierChoice> {
  static constexpr std::array<std::string_view, 4> list = {"auto", "device", "host", "nvme"};
};
template <>
struct Words<Tokenizer> {
  static constexpr std::array<std::string_view, 3> list = {"bytes", "none", "auto"};
};
template <>
struct Words<DataFormat> {
  static constexpr std::array<std::string_view, 4> list = {"auto", "text", "records", "tokens"};
};
template <>
struct Words<BeginToken> {
  static constexpr std::array<std::string_view, 3> list = {"auto", "always", "never"};
};
template <>
struct Words<DataPacking> {
  static constexpr std::array<std::string_view, 3> list = {"none", "documents", "whole"};
};
template <>
struct Words<ScheduleKind> {
  static constexpr std::array<std::string_view, 3> list = {"constant", "linear", "cosine"};
};
template <>
struct Words<OptimizerType> {
  static constexpr std::array<std::string_view, 2> list = {"adamw", "sgd"};
};
template <>
struct Words<Decay> {
  static constexpr std::array<std::string_view, 2> list = {"matrices", "all"};
};
template <>
struct Words<MasterFormat> {
  static constexpr std::array<std::string_view, 2> list = {"fp32", "split"};
};
template <>
struct Words<MomentFormat> {
  static constexpr std::array<std::string_view, 2> list = {"fp32", "bf16"};
};
template <>
struct Words<ParameterFormat> {
  static constexpr std::array<std::string_view, 4> list = {"precision", "fp8", "int8", "nf4"};
};
template <>
struct Words<AdapterType> {
  static constexpr std::array<std::string_view, 4> list = {"none", "lora", "rslora", "dora"};
};
template <>
struct Words<ReduceDtype> {
  static constexpr std::array<std::string_view, 2> list = {"fp32", "bf16"};
};
template <>
struct Words<SelectBy> {
  static constexpr std::array<std::string_view, 2> list = {"validation", "training"};
};

template <typename E>
constexpr std::string_view word_of(E value) {
  return nth(Words<E>::list, value);
}

}  // namespace strata
