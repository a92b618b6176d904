#include "engine/model/graph/place_tensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/nth.h"
#include "engine/model/graph/graph_shape.h"

namespace strata {
namespace {

/// Tensors that follow one another in one place.
struct Storage {
  std::ptrdiff_t first, last;  ///< nodes; it lives from the one to the other
  Bytes bytes;
  std::optional<TensorPlace> place;

  bool overlaps(const Storage& other) const { return first <= other.last && other.first <= last; }
};

bool is_same_size(const Matrix& a, const Matrix& b) {
  return a.dtype == b.dtype && a.rows == b.rows && a.columns == b.columns && a.stride == b.stride;
}

class Placing {
 public:
  explicit Placing(const PlacingProblem& problem) : problem_(problem) {
    find_lifetimes();
    share_in_place();
    share_in_loop();
    stretch_over_loop();
  }

  TensorPlacement place() {
    // No order is best for all: the largest first, the longest-lived first, or as they come.
    const std::array<bool (*)(const Storage&, const Storage&), 3> orders = {
        [](const Storage& a, const Storage& b) { return a.bytes > b.bytes; },
        [](const Storage& a, const Storage& b) { return a.last - a.first > b.last - b.first; },
        [](const Storage& a, const Storage& b) { return a.first < b.first; }};
    std::optional<Bytes> least;
    std::vector<Storage> best;
    for (const auto& order : orders) {
      std::vector<Storage> storages = storages_;
      const Bytes bytes = place_in_order(storages, order);
      if (least && *least <= bytes) continue;
      least = bytes;
      best = std::move(storages);
    }
    TensorPlacement placement;
    placement.workspace_bytes = *least;
    for (const auto& [tensor, storage] : storage_of_) placement.places[tensor] = *best[storage].place;
    return placement;
  }

 private:
  const Tensor& tensor(TensorId id) const { return nth(*problem_.tensors, id); }
  const Matrix& size(TensorId id) const { return nth(problem_.sizes, id); }
  bool in_chunks(TensorId id) const { return nth(problem_.in_chunks, id); }
  bool in_loop(std::ptrdiff_t node) const { return problem_.loop_begin <= node && node < problem_.loop_end; }

  /// Regions that the pass writes whole are its own until then.
  bool is_placed(TensorId id) const {
    const Region region = tensor(id).region;
    return region == Region::workspace || region == Region::output || region == Region::input_gradient;
  }

  std::optional<TensorPlace> given_place(TensorId id) const {
    if (const auto given = problem_.given.find(id); given != problem_.given.end()) return given->second.place;
    if (tensor(id).region == Region::workspace) return {};
    return TensorPlace{tensor(id).region, 0};
  }

  void find_lifetimes() {
    const std::vector<Node>& nodes = *problem_.nodes;
    for (std::ptrdiff_t i = 0; i < std::ssize(nodes); ++i) {
      for_each_operand(nth(nodes, i), [&](const TensorView& view, Touch) {
        if (!is_placed(view.tensor)) return;
        const auto [entry, is_new] = storage_of_.try_emplace(view.tensor, storages_.size());
        if (is_new) {
          const Matrix& size = this->size(view.tensor);
          storages_.push_back({i, i, bytes_of(size), given_place(view.tensor)});
        }
        storages_[entry->second].last = i;
      });
    }
    for (const auto& [id, storage] : storage_of_) {
      const auto given = problem_.given.find(id);
      const bool is_given = given != problem_.given.end();
      if (is_given ? given->second.is_kept : tensor(id).region != Region::workspace)
        storages_[storage].last = std::ssize(nodes);
      if (is_given && given->second.is_there) storages_[storage].first = -1;
    }
  }

  Storage* storage(const TensorView& view) {
    const auto found = view && view.is_whole() ? storage_of_.find(view.tensor) : storage_of_.end();
    return found == storage_of_.end() ? nullptr : &storages_[found->second];
  }

  /// Lets `next` follow `before` in one place, if that is possible.
  void share(const TensorView& before, const TensorView& next) {
    Storage* first = storage(before);
    Storage* second = storage(next);
    if (first == nullptr || second == nullptr || first == second) return;
    if (first->place && second->place) return;
    if (!is_same_size(size(before.tensor), size(next.tensor))) return;
    first->last = second->last;
    if (second->place) first->place = second->place;
    const std::size_t from = storage_of_.at(next.tensor), to = storage_of_.at(before.tensor);
    for (auto& [id, number] : storage_of_)
      if (number == from) number = to;
    storages_[from].bytes = 0;
  }

  void share_in_place() {
    const std::vector<Node>& nodes = *problem_.nodes;
    for (std::ptrdiff_t i = 0; i < std::ssize(nodes); ++i) {
      const Node& node = nth(nodes, i);
      for (const auto& [written, read] : node.rule->in_place()) {
        Storage* before = storage(node[read]);
        Storage* next = storage(node[written]);
        if (before != nullptr && next != nullptr && before->last == i && next->first == i &&
            has_once(node, node[read].tensor))
          share(node[read], node[written]);
      }
    }
  }

  /// In a loop over rows, rows of one tensor may take the place of the same rows of another that is not read
  /// behind them.
  void share_in_loop() {
    for (std::ptrdiff_t i = problem_.loop_begin; i < problem_.loop_end; ++i) {
      for_each_operand(nth(*problem_.nodes, i), [&](const TensorView& next, Touch touch) {
        Storage* written = storage(next);
        if (touch != Touch::writes || written == nullptr || written->first != i || in_chunks(next.tensor))
          return;
        for (const auto& [id, number] : std::map(storage_of_)) {
          const Storage& before = storages_[number];
          if (!in_chunks(id) && in_loop(before.last) && before.last < i) share({id}, next);
          if (storage(next)->first != i) break;  // it has a place, and only one
        }
      });
    }
  }

  /// What is whole and touched by the loop has rows in use throughout it.
  void stretch_over_loop() {
    for (const auto& [id, number] : storage_of_) {
      Storage& storage = storages_[number];
      if (in_chunks(id) || storage.last < problem_.loop_begin || storage.first >= problem_.loop_end) continue;
      storage.first = std::min(storage.first, problem_.loop_begin);
      storage.last = std::max(storage.last, problem_.loop_end - 1);
    }
  }

  /// The lowest place in the region, among those that are placed, or none if it ends beyond the capacity.
  std::optional<Bytes> lowest(const std::vector<Storage>& storages, const Storage& storage, Region region,
                              Bytes capacity) {
    taken_.clear();
    for (const Storage& other : storages) {
      if (other.bytes > 0 && other.place && other.place->region == region && other.overlaps(storage))
        taken_.emplace_back(other.place->offset, align_up(other.place->offset + other.bytes));
    }
    std::ranges::sort(taken_);
    Bytes offset = 0;
    for (const auto& [begin, end] : taken_) {
      if (offset + storage.bytes <= begin) break;
      offset = std::max(offset, end);
    }
    if (offset + storage.bytes > capacity) return {};
    return offset;
  }

  static bool outlives_pass(Region region) { return region == Region::saved || region == Region::pending; }

  template <typename Order>
  Bytes place_in_order(std::vector<Storage>& storages, const Order& order) {
    std::vector<Storage*> sorted;
    std::vector<std::pair<Region, Bytes>> borrowed;
    for (Storage& storage : storages) {
      if (storage.bytes == 0) continue;
      if (!storage.place) {
        sorted.push_back(&storage);
      } else if (!outlives_pass(storage.place->region)) {
        borrowed.emplace_back(storage.place->region, storage.bytes);
      }
    }
    std::ranges::stable_sort(sorted, [&](const Storage* a, const Storage* b) { return order(*a, *b); });
    Bytes workspace = 0;
    for (Storage* storage : sorted) {
      std::optional<Bytes> offset;
      for (const auto& [region, capacity] : borrowed) {
        offset = lowest(storages, *storage, region, capacity);
        if (!offset) continue;
        storage->place = TensorPlace{region, *offset};
        break;
      }
      if (offset) continue;
      offset = lowest(storages, *storage, Region::workspace, kUnlimited - storage->bytes);
      storage->place = TensorPlace{Region::workspace, *offset};
      workspace = std::max(workspace, *offset + storage->bytes);
    }
    return align_up(workspace);
  }

  const PlacingProblem& problem_;
  std::vector<Storage> storages_;
  std::map<TensorId, std::size_t> storage_of_;
  std::vector<std::pair<Bytes, Bytes>> taken_;  ///< what lowest() looks at, kept for its memory
};

}  // namespace

TensorPlacement place_tensors(const PlacingProblem& problem) {
  return Placing(problem).place();
}

}  // namespace strata
