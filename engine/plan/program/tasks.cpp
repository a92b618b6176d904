#include "engine/plan/program/tasks.h"

#include <algorithm>
#include <map>
#include <utility>

namespace strata {
namespace {

/// Tasks that begin together: those of one meeting, or one.
class Run {
 public:
  explicit Run(const std::vector<LaneTask>& tasks)
      : tasks_(tasks), group_of_(tasks.size()), followers_(tasks.size()) {
    timeline_.tasks.resize(tasks.size());
    form_groups();
    link();
  }

  Timeline make() {
    std::vector<std::size_t> ready;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      if (groups_[g].missing == 0) ready.push_back(g);
    while (!ready.empty()) {
      const Group group = groups_[ready.back()];
      ready.pop_back();
      for (const std::int32_t task : group.tasks) {
        const double end = group.start + tasks_[index(task)].seconds;
        timeline_.tasks[index(task)] = {group.start, end};
        timeline_.seconds = std::max(timeline_.seconds, end);
        for (const std::int32_t follower : followers_[index(task)]) {
          Group& next = groups_[group_of_[index(follower)]];
          next.start = std::max(next.start, end);
          if (--next.missing == 0) ready.push_back(group_of_[index(follower)]);
        }
      }
    }
    find_stuck();
    return std::move(timeline_);
  }

 private:
  struct Group {
    std::vector<std::int32_t> tasks;
    std::int64_t missing = 0;  ///< tasks that have to end first, counted as often as they are waited for
    double start = 0;
  };
  static std::size_t index(std::int32_t task) { return static_cast<std::size_t>(task); }

  void form_groups() {
    std::map<std::int32_t, std::size_t> of_meeting;
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      std::size_t group = groups_.size();
      if (tasks_[t].meeting >= 0) group = of_meeting.try_emplace(tasks_[t].meeting, group).first->second;
      if (group == groups_.size()) groups_.emplace_back();
      groups_[group].tasks.push_back(static_cast<std::int32_t>(t));
      group_of_[t] = group;
    }
  }

  void link() {
    std::map<std::int32_t, std::int32_t> latest;  // of each lane
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      const auto task = static_cast<std::int32_t>(t);
      const auto follow = [&](std::int32_t before) {
        followers_[index(before)].push_back(task);
        ++groups_[group_of_[t]].missing;
      };
      for (const std::int32_t before : tasks_[t].after) follow(before);
      const auto [before, is_first] = latest.try_emplace(tasks_[t].lane, task);
      if (!is_first) follow(std::exchange(before->second, task));
    }
  }

  void find_stuck() {
    std::map<std::int32_t, std::int32_t> next;  // of each lane: the first that has not run
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      if (!timeline_.tasks[t].has_run()) next.try_emplace(tasks_[t].lane, static_cast<std::int32_t>(t));
    }
    for (const auto& [lane, task] : next) timeline_.stuck.push_back(task);
  }

  const std::vector<LaneTask>& tasks_;
  std::vector<std::size_t> group_of_;
  std::vector<Group> groups_;
  std::vector<std::vector<std::int32_t>> followers_;
  Timeline timeline_;
};

}  // namespace

Timeline run_tasks(const std::vector<LaneTask>& tasks) {
  return Run(tasks).make();
}

}  // namespace strata
