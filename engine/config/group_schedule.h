// The schedule of an entry of optimizer.groups, which has the keys of optimizer.schedule.
#pragma once

#include <string>

#include "engine/config/schedule_section.h"

namespace YAML {
class Node;
}

namespace strata {

/// Throws value::WrongValue.
ScheduleSection read_group_schedule(const YAML::Node& node);
/// The keys that are not as when left out, as a YAML flow map.
std::string write_group_schedule(const ScheduleSection& schedule);

}  // namespace strata
