// What can be chosen of a run, as plain enums: the run file's keys have these values, and models, plans and
// devices are made by them. Behind each stand its enumerators' words in run files.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/master_format.h"
#include "base/moment_format.h"
#include "base/schedule_type.h"
#include "engine/config/words.h"

namespace strata {

enum class Recompute : std::uint8_t { none, full, automatic };
template <>
struct Words<Recompute> {
  static constexpr std::array<std::string_view, 3> list = {"none", "full", "auto"};
};

enum class Order : std::uint8_t { layer_major, microbatch_major };
template <>
struct Words<Order> {
  static constexpr std::array<std::string_view, 2> list = {"layer_major", "microbatch_major"};
};

/// In which order the stages of a pipeline pass microbatches on.
enum class PipelineSchedule : std::uint8_t {
  gpipe,
  one_f_one_b,
  interleaved,
  zero_bubble,
  breadth_first,
  pipedream,
  pipedream_2bw
};
template <>
struct Words<PipelineSchedule> {
  static constexpr std::array<std::string_view, 7> list = {
      "gpipe", "1f1b", "interleaved", "zero_bubble", "breadth_first", "pipedream", "pipedream_2bw"};
};

/// Whether forward passes go on while updates of earlier ones are still to be made, with weights that lack
/// them.
constexpr bool is_asynchronous(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::pipedream || schedule == PipelineSchedule::pipedream_2bw;
}

enum class LaneMode : std::uint8_t { serial, overlapped };
template <>
struct Words<LaneMode> {
  static constexpr std::array<std::string_view, 2> list = {"serial", "overlapped"};
};

/// automatic: layout and microbatch are searched for where the run file leaves them out.
enum class PlanSearch : std::uint8_t { none, automatic };
template <>
struct Words<PlanSearch> {
  static constexpr std::array<std::string_view, 2> list = {"none", "auto"};
};

enum class DeviceKind : std::uint8_t { cpu, cuda };
template <>
struct Words<DeviceKind> {
  static constexpr std::array<std::string_view, 2> list = {"cpu", "cuda"};
};

/// How files of the NVMe tier are read and written.
enum class NvmeEngine { automatic, io_uring, threads };
template <>
struct Words<NvmeEngine> {
  static constexpr std::array<std::string_view, 3> list = {"auto", "io_uring", "threads"};
};

/// Where what is not on the device lives. automatic: on the host as far as it fits.
enum class TierChoice { automatic, device, host, nvme };
template <>
struct Words<TierChoice> {
  static constexpr std::array<std::string_view, 4> list = {"auto", "device", "host", "nvme"};
};

enum class Tokenizer : std::uint8_t { bytes, none, automatic };
template <>
struct Words<Tokenizer> {
  static constexpr std::array<std::string_view, 3> list = {"bytes", "none", "auto"};
};

/// What the files hold. automatic: what they look like, by content and name
/// (engine/input/data/document_form.h).
enum class DataFormat : std::uint8_t { automatic, text, records, tokens };
template <>
struct Words<DataFormat> {
  static constexpr std::array<std::string_view, 4> list = {"auto", "text", "records", "tokens"};
};

/// What texts begin with. automatic: what the tokenizer's post-processor puts before a text. always: that, or
/// the bos_token if it puts nothing.
enum class BeginToken : std::uint8_t { automatic, always, never };
template <>
struct Words<BeginToken> {
  static constexpr std::array<std::string_view, 3> list = {"auto", "always", "never"};
};

/// What documents in a sequence are to one another. documents: attention and positions are those of each
/// document alone. whole: also, the border of a sequence cuts no document.
enum class DataPacking : std::uint8_t { none, documents, whole };
template <>
struct Words<DataPacking> {
  static constexpr std::array<std::string_view, 3> list = {"none", "documents", "whole"};
};

template <>
struct Words<ScheduleType> {
  static constexpr std::array<std::string_view, 9> list = {"constant",     "linear",          "cosine",
                                                           "polynomial",   "cosine_restarts", "wsd",
                                                           "inverse_sqrt", "piecewise",       "plateau"};
};

template <>
struct Words<DecayShape> {
  static constexpr std::array<std::string_view, 3> list = {"linear", "cosine", "sqrt"};
};

enum class OptimizerType : std::uint8_t {
  adamw,
  ademamix,
  muon,
  normuon,
  lion,
  rmsprop,
  adagrad,
  adagrad_rowwise,
  adafactor,
  sgd
};
template <>
struct Words<OptimizerType> {
  static constexpr std::array<std::string_view, 10> list = {
      "adamw",   "ademamix",        "muon",      "normuon", "lion", "rmsprop",
      "adagrad", "adagrad_rowwise", "adafactor", "sgd"};
};

/// Whether it updates matrices of blocks, and AdamW all else.
constexpr bool orthogonalizes(OptimizerType type) {
  return type == OptimizerType::muon || type == OptimizerType::normuon;
}

/// What muon multiplies the learning rate of a matrix by, under torch.optim.Muon's names.
enum class MuonScaling : std::uint8_t { match_rms_adamw, original, spectral_unclamped };
template <>
struct Words<MuonScaling> {
  static constexpr std::array<std::string_view, 3> list = {"match_rms_adamw", "original",
                                                           "spectral_unclamped"};
};

/// The gradients whose norm decides how a step's gradients are clipped.
enum class ClipBy : std::uint8_t { step, previous_step };
template <>
struct Words<ClipBy> {
  static constexpr std::array<std::string_view, 2> list = {"step", "previous_step"};
};

enum class Decay : std::uint8_t { matrices, all };
template <>
struct Words<Decay> {
  static constexpr std::array<std::string_view, 2> list = {"matrices", "all"};
};

template <>
struct Words<MasterFormat> {
  static constexpr std::array list = {name_of(MasterFormat::fp32), name_of(MasterFormat::split),
                                      name_of(MasterFormat::none)};
};

template <>
struct Words<MomentFormat> {
  static constexpr std::array list = {name_of(MomentFormat::fp32), name_of(MomentFormat::bf16),
                                      name_of(MomentFormat::coded)};
};

/// How moving averages are stored. One changes by less than 8 bits can hold.
enum class AverageFormat : std::uint8_t { fp32, bf16 };
template <>
struct Words<AverageFormat> {
  static constexpr std::array<std::string_view, 2> list = {"fp32", "bf16"};
};

/// How parameters are kept and travel: as passes read them, or packed.
enum class ParameterFormat : std::uint8_t { precision, fp8, int8, nf4 };
template <>
struct Words<ParameterFormat> {
  static constexpr std::array<std::string_view, 4> list = {"precision", "fp8", "int8", "nf4"};
};

/// Whether blocks of neighbours have a scale each (base/block_codes.h), which is for what is frozen.
constexpr bool has_blocks(ParameterFormat format) {
  return format == ParameterFormat::int8 || format == ParameterFormat::nf4;
}
/// What is trained beside frozen layers. rslora scales by alpha / sqrt(rank) (Kalajdzievski 2023); dora has
/// magnitudes of rows, too (Liu et al. 2024).
enum class AdapterType : std::uint8_t { none, lora, rslora, dora };
template <>
struct Words<AdapterType> {
  static constexpr std::array<std::string_view, 4> list = {"none", "lora", "rslora", "dora"};
};

/// The type of gradients on their way between ranks.
enum class ReduceDtype : std::uint8_t { fp32, bf16 };
template <>
struct Words<ReduceDtype> {
  static constexpr std::array<std::string_view, 2> list = {"fp32", "bf16"};
};

}  // namespace strata
