// What a unit's operators work in: the microbatch's shape, and the regions of memory that they are given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/checked.h"
#include "base/context_part.h"
#include "base/nth.h"

namespace strata {

struct MicrobatchShape {
  std::int64_t batch = 0;     ///< sequences
  std::int64_t sequence = 0;  ///< tokens of each
  ContextPart context = {};   ///< which tokens, if ranks share sequences; a plan asks how many do, not which
  std::int64_t tokens() const { return checked_product(batch, sequence); }
};

/// Where a tensor may lie. Outputs and scratch need no initial value; gradients of parameters do.
enum class Region : std::uint8_t {
  parameter,         ///< the unit's flat parameter of what is trained, in the run's precision
  shared_parameter,  ///< that of the unit whose parameters it shares
  frozen,            ///< the unit's flat parameter of what is not trained
  shared_frozen,
  gradient,  ///< fp32, of the parameter's layout; added to
  shared_gradient,
  input,            ///< what the unit before has written
  output,           ///< scratch until it is written
  output_gradient,  ///< in a backward pass
  input_gradient,   ///< in a backward pass; scratch until it is written
  saved,            ///< kept from forward to backward, which uses it up
  pending,          ///< kept from a backward pass of input gradients to that of weight gradients
  workspace,        ///< scratch
  constants,        ///< tables that every unit may read
  data_0,           ///< what the microbatch brings: data_array.h
  data_1,
  data_2,
  data_3,
  losses,      ///< fp32: the run's loss is the mean of all
  logits,      ///< what tokens are chosen by, of a head without a loss (logits_graph.h)
  loss_scale,  ///< fp32: one factor on the loss, or nothing: 1
  tally,       ///< fp32: what a microbatch's forward passes add up for all of its later passes to read
  ring_0,      ///< keys and values on their way round ranks that share sequences (share_sequences.h): those
  ring_1,      ///< that are here, and in the other those that come next
  ring_2,      ///< the gradients of these keys and values, in fp32
  ring_3
};
constexpr std::size_t kRegions = 26;
constexpr std::size_t kRings = 4;

constexpr bool is_of_parameters(Region region) {
  return region == Region::parameter || region == Region::shared_parameter || region == Region::frozen ||
         region == Region::shared_frozen;
}

/// REQUIRES: number < kRings.
constexpr Region ring_region(std::size_t number) {
  return static_cast<Region>(ordinal(Region::ring_0) + number);
}
constexpr bool is_ring(Region region) {
  return Region::ring_0 <= region && region <= Region::ring_3;
}
constexpr std::size_t ring_number(Region region) {
  return ordinal(region) - ordinal(Region::ring_0);
}

/// How many arrays of data a model may read.
constexpr std::size_t kMostDataArrays = 4;

/// REQUIRES: number < kMostDataArrays.
constexpr Region data_region(std::size_t number) {
  return static_cast<Region>(ordinal(Region::data_0) + number);
}
constexpr bool is_data(Region region) {
  return Region::data_0 <= region && region <= Region::data_3;
}
constexpr std::size_t data_number(Region region) {
  return ordinal(region) - ordinal(Region::data_0);
}

/// A device's memory for one pass of one unit; regions that the pass does not touch may be null. No two
/// overlap.
class UnitMemory {
 public:
  std::byte*& operator[](Region region) { return nth(start_, region); }
  std::byte* operator[](Region region) const { return nth(start_, region); }

  std::uint32_t unit = 0;  ///< its number in its model: units of one graph are told apart by it

 private:
  std::array<std::byte*, kRegions> start_ = {};
};

}  // namespace strata
