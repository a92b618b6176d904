// What can be chosen of a run, as plain enums: the run file's keys have these values, and models, plans and
// devices are made by them. The word of each enumerator stands in engine/config/words.h.
#pragma once

#include <cstdint>

namespace strata {

enum class Recompute : std::uint8_t { none, full, automatic };
enum class Order : std::uint8_t { layer_major, microbatch_major };
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
/// Whether forward passes go on while updates of earlier ones are still to be made, with weights that lack
/// them.
constexpr bool is_asynchronous(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::pipedream || schedule == PipelineSchedule::pipedream_2bw;
}

enum class LaneMode : std::uint8_t { serial, overlapped };
/// automatic: layout and microbatch are searched for where the run file leaves them out.
enum class PlanSearch : std::uint8_t { none, automatic };
enum class DeviceKind : std::uint8_t { cpu, cuda };
/// How files of the NVMe tier are read and written.
enum class NvmeEngine { automatic, io_uring, threads };
/// Where what is not on the device lives. automatic: on the host as far as it fits.
enum class TierChoice { automatic, device, host, nvme };
enum class Tokenizer : std::uint8_t { bytes, none, automatic };
/// What the files hold. automatic: what they look like, by content and name (engine/data/document_form.h).
enum class DataFormat : std::uint8_t { automatic, text, records, tokens };
/// What texts begin with. automatic: what the tokenizer's post-processor puts before a text. always: that, or
/// the bos_token if it puts nothing.
enum class BeginToken : std::uint8_t { automatic, always, never };
/// What documents in a sequence are to one another. documents: attention and positions are those of each
/// document alone. whole: also, the border of a sequence cuts no document.
enum class DataPacking : std::uint8_t { none, documents, whole };
enum class ScheduleKind : std::uint8_t { constant, linear, cosine };
enum class OptimizerType : std::uint8_t { adamw, sgd };
enum class Decay : std::uint8_t { matrices, all };
/// How fp32 masters and moments are stored: optim/state_format.h.
enum class MasterFormat : std::uint8_t { fp32, split };
enum class MomentFormat : std::uint8_t { fp32, bf16 };
/// How parameters are kept and travel: as passes read them, or packed.
enum class ParameterFormat : std::uint8_t { precision, fp8, int8, nf4 };
/// Whether blocks of neighbours have a scale each (base/block_codes.h), which is for what is frozen.
constexpr bool has_blocks(ParameterFormat format) {
  return format == ParameterFormat::int8 || format == ParameterFormat::nf4;
}
/// What is trained beside frozen layers. rslora scales by alpha / sqrt(rank) (Kalajdzievski 2023); dora has
/// magnitudes of rows, too (Liu et al. 2024).
enum class AdapterType : std::uint8_t { none, lora, rslora, dora };
/// The type of gradients on their way between ranks.
enum class ReduceDtype : std::uint8_t { fp32, bf16 };

}  // namespace strata
