// Traffic: the bytes that instructions move between tiers and between ranks, as planned. What is measured is
// counted where it happens, never from here.
#pragma once

#include <optional>

#include "base/enum_array.h"
#include "engine/plan/program/program.h"

namespace strata {

/// What bytes move over.
enum class Link : std::uint8_t {
  h2d,
  d2h,
  nvme_read,
  nvme_write,
  all_gather,
  reduce_scatter,
  all_reduce,
  send  ///< messages between stages, and what goes round a ring
};
inline constexpr std::array kLinks = {Link::h2d,        Link::d2h,        Link::nvme_read,
                                      Link::nvme_write, Link::all_gather, Link::reduce_scatter,
                                      Link::all_reduce, Link::send};
constexpr const auto& values_of(Link) {
  return kLinks;
}
std::string_view name_of(Link link);
Lane lane_of(Link link);
/// That an operation's bytes move over, if any do.
std::optional<Link> link_of(Operation operation);

/// Bytes by link; those between ranks are what one rank sends.
using Traffic = EnumArray<Link, Bytes>;

/// What the program says that its instructions move for a step: of all instructions that run in every step,
/// or of those that only steps that save run.
Traffic traffic_of(const Program& program, When when);

/// The bytes that a run moves besides those of its steps, however many steps it has. They serve its first
/// step alone. Bytes that serve two steps in each round count once more, since there is one more round than
/// steps.
Traffic traffic_of_a_start(const Program& program);

}  // namespace strata
