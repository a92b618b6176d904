#include "engine/graph/segment.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/graph/derivation.h"
#include "engine/graph/operators/elementwise.h"
#include "engine/graph/place_tensors.h"

namespace strata {
namespace {

constexpr std::int64_t kChunkRowMultiple = 64;
constexpr std::size_t kMostOperands = 12;

DType dtype_of(TensorType type, DType precision) {
  return type == TensorType::precision ? precision : DType::fp32;
}

std::ptrdiff_t last_touch(const std::vector<Node>& nodes, TensorId tensor) {
  std::ptrdiff_t last = -1;
  for (std::ptrdiff_t i = 0; i < std::ssize(nodes); ++i) {
    for_each_operand(nodes[static_cast<std::size_t>(i)], [&](const TensorView& view, Touch) {
      if (view.tensor == tensor) last = i;
    });
  }
  return last;
}

/// Whoever adds to an operand that must survive, or that is not the segment's own, adds to a copy of it.
std::vector<Node> with_copies(const UnitGraph& graph, const std::map<TensorId, Bytes>& saved) {
  std::vector<Node> nodes;
  for (std::ptrdiff_t i = 0; i < std::ssize(graph.nodes); ++i) {
    Node node = graph.nodes[static_cast<std::size_t>(i)];
    for (const auto& [written, held] : node.rule->must_hold()) {
      if (!node[held]) continue;
      const TensorId id = node[held].tensor;
      const bool can_be_used_up = graph.tensor(id).region == Region::workspace && !saved.contains(id) &&
                                  node[held].is_whole() && has_once(node, id) &&
                                  last_touch(graph.nodes, id) == i;
      if (can_be_used_up) continue;
      nodes.push_back({std::make_shared<CopyRule>(), {node[held], node[written]}});
      node[held] = node[written];
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

double flops_of(const Node& node, const UnitGraph& graph, const GraphShape& shape) {
  std::vector<Matrix> sizes;
  for (const TensorView& view : node.operands) {
    sizes.push_back(view ? size_of(graph.tensor(view), shape) : Matrix());
    if (!view.is_whole()) sizes.back().columns = view.columns;
  }
  return node.rule->flops(Operands(sizes, shape.microbatch));
}

}  // namespace

Matrix size_of(const Tensor& tensor, const GraphShape& shape) {
  return {nullptr, dtype_of(tensor.type, shape.precision), tensor.rows.in(shape.microbatch),
          tensor.columns.in(shape.microbatch)};
}

Bytes bytes_of(const Matrix& size) {
  return checked_product(size.rows, size.columns, size_of(size.dtype));
}

double forward_flops(const UnitGraph& graph, const GraphShape& shape) {
  double sum = 0;
  for (const Node& node : graph.nodes) sum += flops_of(node, graph, shape);
  return sum;
}

double backward_flops(const UnitGraph& graph, const GraphShape& shape) {
  const std::vector<bool> wanted = wanted_tensors(graph);
  double sum = 0;
  for (const Node& node : graph.nodes) {
    bool has_parameters = false, wants_parameters = false, wants_others = false;
    for_each_operand(node, [&](const TensorView& view, Touch touch) {
      if (touch == Touch::writes) return;
      const bool is_parameter = is_of_parameters(graph.tensor(view).region);
      has_parameters |= is_parameter;
      (is_parameter ? wants_parameters : wants_others) |= wanted[static_cast<std::size_t>(view.tensor)];
    });
    const int gradients = has_parameters ? int{wants_parameters} + int{wants_others} : 2 * int{wants_others};
    sum += gradients * flops_of(node, graph, shape);
  }
  return sum;
}

class SegmentMaker {
 public:
  SegmentMaker(Segment& segment, const UnitGraph& graph, const GraphShape& shape,
               const std::map<TensorId, Bytes>& saved, bool keeps)
      : segment_(segment), shape_(shape), tensors_(graph.tensors), nodes_(with_copies(graph, saved)) {
    for (const Tensor& tensor : tensors_) sizes_.push_back(size_of(tensor, shape));
    segment_.shape_ = shape.microbatch;
    find_chunks();
    place(saved, keeps);
    spare_what_is_read_by_chunks(saved, keeps);
    for (std::ptrdiff_t i = 0; i < std::ssize(nodes_); ++i) add_step(i);
  }

 private:
  using PlacedOperand = Segment::PlacedOperand;

  Tensor& tensor(TensorId id) { return tensors_[static_cast<std::size_t>(id)]; }
  const Matrix& size(TensorId id) const { return sizes_[static_cast<std::size_t>(id)]; }
  Node& node(std::ptrdiff_t i) { return nodes_[static_cast<std::size_t>(i)]; }

  bool touches_chunks(const Node& node) {
    bool touches = false;
    for_each_operand(node, [&](const TensorView& view, Touch) { touches |= tensor(view.tensor).in_chunks; });
    return touches;
  }

  void find_chunks() {
    const std::int64_t tokens = shape_.microbatch.tokens();
    for (std::size_t id = 0; id < tensors_.size(); ++id) {
      if (!tensors_[id].in_chunks) continue;
      const Bytes row = sizes_[id].columns * size_of(sizes_[id].dtype);
      const std::int64_t fitting = shape_.max_chunk_bytes / row / kChunkRowMultiple * kChunkRowMultiple;
      const std::int64_t rows = std::min(tokens, std::max(kChunkRowMultiple, fitting));
      segment_.chunk_rows_ = segment_.chunk_rows_ == 0 ? rows : std::min(segment_.chunk_rows_, rows);
    }
    find_loop();
  }

  void find_loop() {
    loop_begin_ = loop_end_ = 0;
    for (std::ptrdiff_t i = 0; i < std::ssize(nodes_); ++i) {
      if (!touches_chunks(node(i))) continue;
      if (loop_end_ == 0) loop_begin_ = i;
      loop_end_ = i + 1;
    }
  }

  void place(const std::map<TensorId, Bytes>& saved, bool keeps) {
    PlacingProblem problem{.tensors = &tensors_,
                           .nodes = &nodes_,
                           .sizes = sizes_,
                           .saved = saved,
                           .keeps_saved = keeps,
                           .loop_begin = loop_begin_,
                           .loop_end = loop_end_};
    for (std::size_t id = 0; id < tensors_.size(); ++id)
      if (tensors_[id].in_chunks) problem.sizes[id].rows = segment_.chunk_rows_;
    placement_ = place_tensors(problem);
    segment_.workspace_bytes_ = placement_.workspace_bytes;
  }

  /// What only the loop reads need not exist whole either, if the node before the loop that makes it goes by
  /// rows. It stays whole if that takes no more room.
  void spare_what_is_read_by_chunks(const std::map<TensorId, Bytes>& saved, bool keeps) {
    if (loop_begin_ == 0) return;
    const Node& maker = node(loop_begin_ - 1);
    if (!maker.rule->goes_by_rows()) return;
    const std::vector<Tensor> whole = tensors_;
    const Placement placed_whole = placement_;
    const std::vector<Touch> touches = maker.rule->touches();
    for (std::size_t i = 0; i < touches.size(); ++i) {
      if (touches[i] != Touch::writes || !maker.operands[i]) continue;
      Tensor& made = tensor(maker.operands[i].tensor);
      const bool is_read_by_loop = last_touch(nodes_, maker.operands[i].tensor) < loop_end_;
      if (made.region == Region::workspace && is_read_by_loop && made.rows.extent().per == Extent::Per::token)
        made.in_chunks = true;
    }
    find_loop();
    place(saved, keeps);
    if (placement_.workspace_bytes < placed_whole.workspace_bytes) return;
    tensors_ = whole;
    placement_ = placed_whole;
    segment_.workspace_bytes_ = placement_.workspace_bytes;
    find_loop();
  }

  PlacedOperand place_operand(const TensorView& view, Touch touch, bool in_loop) {
    if (!view) return {.size = Matrix()};
    const Tensor& tensor = this->tensor(view.tensor);
    PlacedOperand operand{.region = tensor.region, .size = size(view.tensor)};
    const Bytes element = size_of(operand.size.dtype);
    const auto placed = placement_.places.find(view.tensor);
    if (placed != placement_.places.end()) {
      operand.region = placed->second.region;
      operand.offset = placed->second.offset;
    } else if (tensor.region == Region::constants) {
      operand.offset = shape_.constants.at(static_cast<std::size_t>(tensor.offset));
    } else {
      operand.offset = tensor.offset * element;
    }
    if (!view.is_whole()) {
      operand.offset += view.first * element;
      operand.size.columns = view.columns;
    }
    const auto region = static_cast<std::size_t>(operand.region);
    segment_.read_[region] |= touch != Touch::writes;
    segment_.written_[region] |= touch != Touch::reads;
    if (!in_loop) return operand;
    using Rows = PlacedOperand::Rows;
    operand.tokens = tensor.in_chunks                                    ? Rows::in_chunk
                     : tensor.rows.extent().per == Extent::Per::token    ? Rows::in_rows
                     : tensor.columns.extent().per == Extent::Per::token ? Rows::in_columns
                                                                         : Rows::all;
    return operand;
  }

  void add_step(std::ptrdiff_t i) {
    Segment::Step step{.rule = node(i).rule, .in_chunks = loop_begin_ <= i && i < loop_end_};
    std::vector<Matrix> sizes;
    const std::vector<Touch> touches = step.rule->touches();
    for (std::size_t k = 0; k < touches.size(); ++k) {
      step.operands.push_back(place_operand(node(i).operands[k], touches[k], step.in_chunks));
      sizes.push_back(step.operands.back().size);
    }
    assert(sizes.size() <= kMostOperands);
    segment_.flops_ += step.rule->flops(Operands(sizes, segment_.shape_));
    segment_.steps_.push_back(std::move(step));
  }

  Segment& segment_;
  const GraphShape& shape_;
  std::vector<Tensor> tensors_;
  std::vector<Node> nodes_;
  std::vector<Matrix> sizes_;
  std::ptrdiff_t loop_begin_ = 0, loop_end_ = 0;
  Placement placement_;
};

Segment::Segment(const UnitGraph& graph, const GraphShape& shape, const std::map<TensorId, Bytes>& saved,
                 bool keeps) {
  SegmentMaker(*this, graph, shape, saved, keeps);
}

void Segment::run(Kernels& kernels, const UnitMemory& memory, float loss_factor) const {
  const std::int64_t tokens = shape_.tokens();
  for (auto step = steps_.begin(); step != steps_.end();) {
    if (!step->in_chunks) {
      run_rows(kernels, memory, loss_factor, *step++, 0, tokens);
      continue;
    }
    const auto end = std::find_if(step, steps_.end(), [](const Step& other) { return !other.in_chunks; });
    for (std::int64_t first = 0; first < tokens; first += chunk_rows_) {
      for (auto each = step; each != end; ++each)
        run_rows(kernels, memory, loss_factor, *each, first, std::min(chunk_rows_, tokens - first));
    }
    step = end;
  }
}

void Segment::run_rows(Kernels& kernels, const UnitMemory& memory, float loss_factor, const Step& step,
                       std::int64_t first, std::int64_t rows) const {
  std::array<Matrix, kMostOperands> matrices;
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    const PlacedOperand& operand = step.operands[i];
    std::byte* start = memory[operand.region];
    if (operand.size.columns == 0 || start == nullptr) continue;
    Matrix matrix = operand.size;
    matrix.data = start + operand.offset;
    switch (operand.tokens) {
      case PlacedOperand::Rows::all:
        break;
      case PlacedOperand::Rows::in_rows:
        matrix = matrix.row_slice(first, rows);
        break;
      case PlacedOperand::Rows::in_columns:
        matrix = matrix.column_slice(first, rows);
        break;
      case PlacedOperand::Rows::in_chunk:
        matrix = matrix.row_slice(0, rows);
        break;
    }
    matrices[i] = matrix;
  }
  step.rule->run(kernels, Operands({matrices.data(), step.operands.size()}, shape_, loss_factor));
}

}  // namespace strata
