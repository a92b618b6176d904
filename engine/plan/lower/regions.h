// What the regions of a unit's memory are to instructions.
#pragma once

#include <array>
#include <utility>

#include "base/nth.h"
#include "engine/model/graph/unit_memory.h"
#include "engine/plan/program/program.h"

namespace strata {

inline constexpr std::array<std::pair<Region, Role>, kRegions> kRegionRoles = {{
    {Region::parameter, Role::parameter},
    {Region::shared_parameter, Role::shared_parameter},
    {Region::frozen, Role::frozen},
    {Region::shared_frozen, Role::shared_frozen},
    {Region::gradient, Role::gradient},
    {Region::shared_gradient, Role::shared_gradient},
    {Region::input, Role::input},
    {Region::output, Role::output},
    {Region::output_gradient, Role::output_gradient},
    {Region::input_gradient, Role::input_gradient},
    {Region::saved, Role::saved},
    {Region::pending, Role::pending},
    {Region::workspace, Role::workspace},
    {Region::constants, Role::constants},
    {Region::data_0, Role::data_0},
    {Region::data_1, Role::data_1},
    {Region::data_2, Role::data_2},
    {Region::data_3, Role::data_3},
    {Region::losses, Role::losses},
    {Region::logits, Role::logits},
    {Region::loss_scale, Role::loss_scale},
    {Region::tally, Role::tally},
    {Region::ring_0, Role::ring_0},
    {Region::ring_1, Role::ring_1},
    {Region::ring_2, Role::ring_2},
    {Region::ring_3, Role::ring_3},
}};

constexpr Role role_of(Region region) {
  return nth(kRegionRoles, region).second;
}

}  // namespace strata
