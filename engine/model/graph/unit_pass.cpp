#include "engine/model/graph/unit_pass.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/nth.h"

namespace strata {
namespace {

std::ptrdiff_t last_touch(const std::vector<Node>& nodes, TensorId tensor) {
  std::ptrdiff_t last = -1;
  for (std::ptrdiff_t i = 0; i < std::ssize(nodes); ++i) {
    for_each_operand(nth(nodes, i), [&](const TensorView& view, Touch) {
      if (view.tensor == tensor) last = i;
    });
  }
  return last;
}

}  // namespace

class UnitPassMaker {
 public:
  UnitPassMaker(const UnitGraph& graph, const GraphShape& shape, const GivenTensors& given)
      : shape_(shape), given_(given), tensors_(graph.tensors), nodes_(graph.nodes) {
    std::ranges::transform(tensors_, std::back_inserter(in_chunks_), &Tensor::in_chunks);
    pass_.chunk_rows_ = strata::chunk_rows(graph, shape);
    find_loop();
    place();
    spare_what_is_read_by_chunks();
  }

  Bytes workspace_bytes() const { return pass_.workspace_bytes_; }

  UnitPass make() && {
    add_all();
    return std::move(pass_);
  }

 private:
  using PlacedOperand = Segment::PlacedOperand;

  /// Rows that a node works on; those of all tokens outside of the loop.
  struct Chunk {
    std::int64_t first = 0, rows = 0;
  };

  const Tensor& tensor(TensorId id) const { return nth(tensors_, id); }
  bool in_chunks(TensorId id) const { return nth(in_chunks_, id); }
  const Matrix& size(TensorId id) const { return nth(sizes_, id); }
  std::int64_t chunk_rows() const { return pass_.chunk_rows_; }
  const Node& node(std::ptrdiff_t i) const { return nth(nodes_, i); }

  bool touches_chunks(const Node& node) const {
    bool touches = false;
    for_each_operand(node, [&](const TensorView& view, Touch) { touches |= in_chunks(view.tensor); });
    return touches;
  }

  /// What ranks exchange has no gaps between its rows.
  bool is_exchanged(TensorId id) const {
    return std::ranges::any_of(nodes_, [&](const Node& node) {
      return node.rule->exchange_form() &&
             std::ranges::find(node.operands, id, &TensorView::tensor) != node.operands.end();
    });
  }

  void find_loop() {
    loop_begin_ = loop_end_ = 0;
    for (std::ptrdiff_t i = 0; i < std::ssize(nodes_); ++i) {
      if (!touches_chunks(node(i))) continue;
      if (loop_end_ == 0) loop_begin_ = i;
      loop_end_ = i + 1;
    }
  }

  void place() {
    sizes_.clear();
    for (TensorId id = 0; id < std::ssize(tensors_); ++id) {
      sizes_.push_back(size_of(tensor(id), shape_));
      if (in_chunks(id) && !is_exchanged(id)) sizes_.back().stride = chunk_stride(sizes_.back().columns);
    }
    PlacingProblem problem{.tensors = &tensors_,
                           .nodes = &nodes_,
                           .in_chunks = in_chunks_,
                           .sizes = sizes_,
                           .given = given_,
                           .loop_begin = loop_begin_,
                           .loop_end = loop_end_};
    for (std::size_t id = 0; id < tensors_.size(); ++id)
      if (in_chunks_[id]) problem.sizes[id].rows = chunk_rows();
    placement_ = place_tensors(problem);
    pass_.workspace_bytes_ = placement_.workspace_bytes;
  }

  /// What only the loop reads need not exist whole either, if the node before the loop that makes it goes by
  /// rows. It stays whole if that takes no more room.
  void spare_what_is_read_by_chunks() {
    if (loop_begin_ == 0) return;
    const Node& maker = node(loop_begin_ - 1);
    if (!maker.rule->goes_by_rows()) return;
    const std::vector<bool> whole = in_chunks_;
    const Bytes bytes_whole = placement_.workspace_bytes;
    const Touches touches = maker.rule->touches();
    for (std::size_t i = 0; i < touches.size(); ++i) {
      if (touches[i] != Touch::writes || !maker.operands[i]) continue;
      const TensorId id = maker.operands[i].tensor;
      const Tensor& made = tensor(id);
      const bool is_read_by_loop = last_touch(nodes_, id) < loop_end_;
      if (made.region == Region::workspace && is_read_by_loop && made.rows.extent().per == Extent::Per::token)
        nth(in_chunks_, id) = true;
    }
    find_loop();
    place();
    if (placement_.workspace_bytes < bytes_whole) return;
    in_chunks_ = whole;
    find_loop();
    place();
  }

  PlacedOperand place_operand(const TensorView& view, const std::optional<Chunk>& chunk) const {
    if (!view) return {.size = Matrix()};
    const Tensor& tensor = this->tensor(view.tensor);
    PlacedOperand operand{
        .region = tensor.region, .size = size(view.tensor), .has_indices = tensor.type == TensorType::int32};
    const Bytes element = size_of(operand.size.dtype);
    const auto placed = placement_.places.find(view.tensor);
    if (placed != placement_.places.end()) {
      operand.region = placed->second.region;
      operand.offset = placed->second.offset;
    } else if (tensor.region == Region::constants) {
      operand.offset = shape_.constants.at(static_cast<std::size_t>(tensor.offset));
    } else {
      operand.offset = tensor.offset * element + tensor.part * bytes_of(operand.size);
    }
    if (!view.is_whole()) {
      operand.offset += view.first * element;
      operand.size.columns = view.columns;
    }
    if (!chunk) return operand;
    const auto [first, rows] = *chunk;
    if (in_chunks(view.tensor)) {
      operand.size.rows = rows;
    } else if (tensor.rows.extent().per == Extent::Per::token) {
      operand.offset += first * operand.size.stride * element;
      operand.size.rows = rows;
    } else if (tensor.columns.extent().per == Extent::Per::token) {
      operand.offset += first * element;
      operand.size.columns = rows;
    }
    return operand;
  }

  void add_all() {
    const std::int64_t tokens = shape_.microbatch.tokens();
    for (std::ptrdiff_t i = 0; i < loop_begin_; ++i) add(i, {});
    if (loop_begin_ < loop_end_) {
      for (std::int64_t first = 0; first < tokens; first += chunk_rows()) {
        for (std::ptrdiff_t i = loop_begin_; i < loop_end_; ++i)
          add(i, Chunk{first, std::min(chunk_rows(), tokens - first)});
      }
    }
    for (std::ptrdiff_t i = loop_end_; i < std::ssize(nodes_); ++i) add(i, {});
    end_segment();
  }

  void add(std::ptrdiff_t i, const std::optional<Chunk>& chunk) {
    Segment::Step step{.rule = node(i).rule};
    for (const TensorView& view : node(i).operands) step.operands.push_back(place_operand(view, chunk));
    const std::optional<ExchangeForm> exchange = step.rule->exchange_form();
    if (!exchange) {
      if (step.rule->begins_segment()) end_segment();
      steps_.push_back(std::move(step));
      return;
    }
    end_segment();
    pass_.exchanges_.push_back({.kind = exchange->kind,
                                .shared = exchange->shared,
                                .source = nth(step.operands, exchange->source),
                                .destination = nth(step.operands, exchange->destination),
                                .before = pass_.segments_.size(),
                                .is_in_loop = chunk.has_value()});
    for (const PlacedOperand& operand :
         {pass_.exchanges_.back().source, pass_.exchanges_.back().destination}) {
      if (!is_ring(operand.region)) continue;
      Bytes& bytes = pass_.ring_bytes_[ring_number(operand.region)];
      bytes = std::max(bytes, bytes_of(operand.size));
    }
  }

  void end_segment() {
    if (!steps_.empty()) pass_.segments_.emplace_back(std::exchange(steps_, {}), shape_.microbatch);
  }

  UnitPass pass_;
  const GraphShape& shape_;
  const GivenTensors& given_;
  const std::vector<Tensor>& tensors_;
  const std::vector<Node>& nodes_;
  std::vector<bool> in_chunks_;  ///< by tensor: those of the graph, and what the loop alone reads
  std::vector<Matrix> sizes_;
  std::ptrdiff_t loop_begin_ = 0, loop_end_ = 0;
  TensorPlacement placement_;
  std::vector<Segment::Step> steps_;  ///< of the segment that is being made
};

Bytes workspace_bytes_of(const UnitGraph& graph, const GraphShape& shape, const GivenTensors& given) {
  return UnitPassMaker(graph, shape, given).workspace_bytes();
}

UnitPass::UnitPass(const UnitGraph& graph, const GraphShape& shape, const GivenTensors& given)
    : UnitPass(UnitPassMaker(graph, shape, given).make()) {}

double UnitPass::flops() const {
  double sum = 0;
  for (const Segment& segment : segments_) sum += segment.flops();
  return sum;
}

bool UnitPass::reads(Region region) const {
  return std::ranges::any_of(segments_, [&](const Segment& segment) { return segment.reads(region); });
}

bool UnitPass::writes(Region region) const {
  return std::ranges::any_of(segments_, [&](const Segment& segment) { return segment.writes(region); });
}

bool UnitPass::touches(Region region) const {
  return reads(region) || writes(region);
}

void UnitPass::run(Kernels& kernels, const UnitMemory& memory, float loss_factor,
                   const Exchange& exchange) const {
  auto next = exchanges_.begin();
  for (std::size_t i = 0; i <= segments_.size(); ++i) {
    for (; next != exchanges_.end() && next->before == i; ++next) exchange(*next);
    if (i < segments_.size()) segments_[i].run(kernels, memory, loss_factor);
  }
}

}  // namespace strata
