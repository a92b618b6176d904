#include "engine/plan/program/tasks.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/nth.h"

namespace strata {
namespace {

/// Which tasks have to end before which.
class Order {
 public:
  explicit Order(const std::vector<LaneTask>& tasks) : tasks_(tasks), missing_(tasks.size(), 0) {
    join_meetings();
    link();
  }

  /// Tells that nothing keeps a task any more, and appends all that so may begin.
  void end(std::int32_t task, std::vector<std::int32_t>& ready) {
    for (const std::int32_t follower : followers_of(task)) release(follower, ready);
  }
  /// Appends what may begin at once.
  void begin(std::vector<std::int32_t>& ready) const {
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      if (first_[t] == static_cast<std::int32_t>(t) && missing_[t] == 0) append(first_[t], ready);
    }
  }

 private:
  std::span<const std::int32_t> followers_of(std::int32_t task) const {
    const std::size_t begin = nth(follower_begin_, task);
    return {followers_.data() + begin, nth(follower_begin_, task + 1) - begin};
  }

  void release(std::int32_t task, std::vector<std::int32_t>& ready) {
    const std::int32_t first = nth(first_, task);
    if (--nth(missing_, first) == 0) append(first, ready);
  }

  void append(std::int32_t first, std::vector<std::int32_t>& ready) const {
    for (std::int32_t task = first; task >= 0; task = nth(next_met_, task)) ready.push_back(task);
  }

  void join_meetings() {
    std::unordered_map<std::int32_t, std::pair<std::int32_t, std::int32_t>> met;  // first and latest
    next_met_.assign(tasks_.size(), -1);
    first_.resize(tasks_.size());
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      const auto task = static_cast<std::int32_t>(t);
      first_[t] = task;
      if (tasks_[t].meeting < 0) continue;
      const auto [found, is_first] = met.try_emplace(tasks_[t].meeting, task, task);
      if (is_first) continue;
      first_[t] = found->second.first;
      nth(next_met_, std::exchange(found->second.second, task)) = task;
    }
  }

  /// Calls visit(before, task) for each pair in which `task` waits for `before`.
  template <typename Visit>
  void for_each_pair(Visit&& visit) const {
    std::unordered_map<std::int32_t, std::int32_t> latest;  // of each lane
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      const auto task = static_cast<std::int32_t>(t);
      for (const std::int32_t before : tasks_[t].after) visit(before, task);
      const auto [before, is_first] = latest.try_emplace(tasks_[t].lane, task);
      if (!is_first) visit(std::exchange(before->second, task), task);
    }
  }

  void link() {
    follower_begin_.assign(tasks_.size() + 1, 0);
    for_each_pair([&](std::int32_t before, std::int32_t task) {
      ++nth(follower_begin_, before + 1);
      ++nth(missing_, nth(first_, task));
    });
    for (std::size_t t = 0; t < tasks_.size(); ++t) follower_begin_[t + 1] += follower_begin_[t];
    followers_.resize(follower_begin_.back());
    std::vector<std::size_t> next(follower_begin_.begin(), follower_begin_.end() - 1);
    for_each_pair([&](std::int32_t before, std::int32_t task) { followers_[nth(next, before)++] = task; });
  }

  const std::vector<LaneTask>& tasks_;
  std::vector<std::int32_t> missing_;   ///< by first of a meeting: that have to end, as often as waited for
  std::vector<std::int32_t> first_;     ///< by task: of its meeting, or itself
  std::vector<std::int32_t> next_met_;  ///< by task: of its meeting, or -1
  std::vector<std::size_t> follower_begin_;  ///< by task, in followers_
  std::vector<std::int32_t> followers_;
};

/// Tasks that run, and how fast.
class Running {
 public:
  explicit Running(const std::vector<LaneTask>& tasks) : tasks_(tasks), progress_(tasks.size()) {}

  void begin(std::int32_t task, double now) {
    nth(progress_, task) = {.left = nth(tasks_, task).seconds, .since = now};
    for_each_resource(task, [&](Resource& resource, double share) {
      resource.users.push_back({task, share});
      resource.wanted += share;
    });
    set_speed(task, now);
    for_each_resource(task, [&](const Resource& resource, double) { set_speeds(resource, now); });
  }

  /// Ends the task that ends first. Gives it and when that is; nothing if none runs.
  std::optional<std::pair<std::int32_t, double>> end_next() {
    while (!ends_.empty() && ends_.top().version != nth(progress_, ends_.top().task).version) ends_.pop();
    if (ends_.empty()) return std::nullopt;
    const auto [now, task, version] = ends_.top();
    ends_.pop();
    for_each_resource(task, [task = task](Resource& resource, double) {
      std::erase_if(resource.users, [task](const User& user) { return user.task == task; });
      resource.wanted = 0;  // a sum from which shares are taken again would keep their rounding errors
      for (const User& user : resource.users) resource.wanted += user.share;
    });
    for_each_resource(task, [&, now = now](const Resource& resource, double) { set_speeds(resource, now); });
    return std::pair(task, now);
  }

 private:
  struct Progress {
    double left = 0, since = 0, speed = 0;  ///< seconds at full speed that are left at `since`
    std::int32_t version = 0;               ///< how often its end has been expected: only the latest counts
  };
  struct User {
    std::int32_t task;
    double share;
  };
  struct Resource {
    std::vector<User> users;
    double wanted = 0;
  };
  struct End {
    double time;
    std::int32_t task, version;
    bool operator>(const End& other) const { return std::tie(time, task) > std::tie(other.time, other.task); }
  };

  /// Calls visit(resource, share) for those that a task takes.
  template <typename Visit>
  void for_each_resource(std::int32_t task, Visit&& visit) {
    for (const ResourceShare& share : nth(tasks_, task).shares) {
      if (share.resource < 0 || share.share <= 0) continue;
      if (share.resource >= std::ssize(resources_)) resize(resources_, share.resource + 1);
      visit(nth(resources_, share.resource), share.share);
    }
  }

  void set_speeds(const Resource& resource, double now) {
    for (const User& user : resource.users) set_speed(user.task, now);
  }

  void set_speed(std::int32_t task, double now) {
    double speed = 1;
    for_each_resource(task, [&](const Resource& resource, double) {
      speed = std::min(speed, 1 / std::max(1.0, resource.wanted));
    });
    Progress& progress = nth(progress_, task);
    if (speed == progress.speed) return;
    progress.left = std::max(0.0, progress.left - (now - progress.since) * progress.speed);
    progress.since = now;
    progress.speed = speed;
    ends_.push({now + progress.left / speed, task, ++progress.version});
  }

  const std::vector<LaneTask>& tasks_;
  std::vector<Progress> progress_;
  std::vector<Resource> resources_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

/// The first task of each lane that has not run.
std::vector<std::int32_t> find_stuck(const std::vector<LaneTask>& tasks, const Timeline& timeline) {
  std::map<std::int32_t, std::int32_t> next;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (!timeline.tasks[t].has_run()) next.try_emplace(tasks[t].lane, static_cast<std::int32_t>(t));
  }
  std::vector<std::int32_t> stuck;
  for (const auto& [lane, task] : next) stuck.push_back(task);
  return stuck;
}

}  // namespace

Timeline run_tasks(const std::vector<LaneTask>& tasks) {
  Timeline timeline;
  timeline.tasks.resize(tasks.size());
  Order order(tasks);
  Running running(tasks);
  std::vector<std::int32_t> ready;
  order.begin(ready);
  for (double now = 0;;) {
    while (!ready.empty()) {
      const std::int32_t task = ready.back();
      ready.pop_back();
      nth(timeline.tasks, task).start = now;
      if (nth(tasks, task).seconds > 0) {
        running.begin(task, now);
        continue;
      }
      nth(timeline.tasks, task).end = now;
      order.end(task, ready);
    }
    const auto ended = running.end_next();
    if (!ended) break;
    const std::int32_t task = ended->first;
    nth(timeline.tasks, task).end = timeline.seconds = now = ended->second;
    order.end(task, ready);
  }
  timeline.stuck = find_stuck(tasks, timeline);
  return timeline;
}

}  // namespace strata
