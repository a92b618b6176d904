#include "engine/model/compute_layers.h"

#include <stdexcept>
#include <string>

namespace strata {

Matrix LinearLayer::weight_of(const FlatParameter& flat) const {
  return order == WeightOrder::linear ? flat.value(weight, outputs, inputs)
                                      : flat.value(weight, inputs, outputs);
}

void LinearLayer::forward(Kernels& kernels, const FlatParameter& flat, const Matrix& x, const Matrix& out,
                          bool accumulate) const {
  Product product;
  product.a = x;
  product.b = weight_of(flat);
  product.transpose_b = order == WeightOrder::linear;
  product.out = out;
  product.accumulate = accumulate;
  if (bias) product.bias = flat.value(*bias, 1, outputs);
  kernels.run(product);
}

void LinearLayer::add_gradients(Kernels& kernels, const FlatParameter& flat, const Matrix& x,
                                const Matrix& out_gradient) const {
  const bool linear = order == WeightOrder::linear;
  Product product;
  product.a = linear ? out_gradient : x;
  product.transpose_a = true;
  product.b = linear ? x : out_gradient;
  product.out =
      linear ? flat.gradient_of(weight, outputs, inputs) : flat.gradient_of(weight, inputs, outputs);
  product.accumulate = true;
  kernels.run(product);
  if (bias) kernels.run(ColumnSum{out_gradient, flat.gradient_of(*bias, 1, outputs)});
}

void LinearLayer::input_gradient(Kernels& kernels, const FlatParameter& flat, const Matrix& out_gradient,
                                 const Matrix& x_gradient) const {
  Product product;
  product.a = out_gradient;
  product.b = weight_of(flat);
  product.transpose_b = order == WeightOrder::conv1d;
  product.out = x_gradient;
  kernels.run(product);
}

double LinearLayer::flops(std::int64_t tokens) const {
  return 2 * static_cast<double>(tokens) * static_cast<double>(inputs) * static_cast<double>(outputs);
}

void NormLayer::forward(Kernels& kernels, const FlatParameter& flat, const Matrix& x, const Matrix& out,
                        const NormStatistics& statistics) const {
  forward_sum(kernels, flat, x, {}, {}, out, statistics);
}

void NormLayer::forward_sum(Kernels& kernels, const FlatParameter& flat, const Matrix& x,
                            const Matrix& residual, const Matrix& sum, const Matrix& out,
                            const NormStatistics& statistics) const {
  NormForward norm{};
  norm.kind = kind;
  norm.epsilon = epsilon;
  norm.input = x;
  norm.addend = residual;
  norm.sum = sum;
  norm.weight = flat.value(weight, 1, columns);
  if (bias) norm.bias = flat.value(*bias, 1, columns);
  norm.out = out;
  norm.mean = statistics.mean;
  norm.reciprocal_deviation = statistics.reciprocal_deviation;
  kernels.run(norm);
}

void NormLayer::backward(Kernels& kernels, const FlatParameter& flat, const Matrix& x,
                         const NormStatistics& statistics, const Matrix& out_gradient,
                         const Matrix& residual_gradient, const Matrix& x_gradient) const {
  NormBackward norm{};
  norm.kind = kind;
  norm.input = x;
  norm.weight = flat.value(weight, 1, columns);
  norm.mean = statistics.mean;
  norm.reciprocal_deviation = statistics.reciprocal_deviation;
  norm.out_gradient = out_gradient;
  norm.addend = residual_gradient;
  norm.input_gradient = x_gradient;
  norm.weight_gradient = flat.gradient_of(weight, 1, columns);
  if (bias) norm.bias_gradient = flat.gradient_of(*bias, 1, columns);
  kernels.run(norm);
}

namespace {

const TensorSpec* find_optional(const Unit& unit, std::string_view name) {
  for (const TensorSpec& tensor : unit.tensors) {
    const std::string_view full = tensor.hf_name;
    if (!full.ends_with(name)) continue;
    if (full.size() == name.size() || full[full.size() - name.size() - 1] == '.') return &tensor;
  }
  return nullptr;
}

/// Where the stretch of adjacent tensors starts, whose next tensor must be `tensor`; `elements` is what it
/// has so far.
void extend(std::optional<std::int64_t>& start, std::int64_t elements, const TensorSpec& tensor) {
  if (!start) start = tensor.offset;
  if (*start + elements != tensor.offset) {
    throw std::logic_error("tensor " + tensor.hf_name +
                           " is not adjacent to the one that shares its product");
  }
}

}  // namespace

const TensorSpec& find_tensor(const Unit& unit, std::string_view name) {
  const TensorSpec* tensor = find_optional(unit, name);
  if (tensor == nullptr) throw std::logic_error("unit " + unit.name + " has no tensor " + std::string(name));
  return *tensor;
}

LinearLayer find_linear(const Unit& unit, WeightOrder order, std::initializer_list<std::string_view> names) {
  LinearLayer layer;
  layer.order = order;
  std::optional<std::int64_t> weight;
  for (const std::string_view name : names) {
    const TensorSpec& tensor = find_tensor(unit, std::string(name) + ".weight");
    const bool linear = order == WeightOrder::linear;
    layer.inputs = tensor.hf_shape.at(linear ? 1 : 0);
    extend(weight, layer.inputs * layer.outputs, tensor);
    const TensorSpec* bias = find_optional(unit, std::string(name) + ".bias");
    if (bias != nullptr) extend(layer.bias, layer.outputs, *bias);
    layer.outputs += tensor.hf_shape.at(linear ? 0 : 1);
  }
  layer.weight = weight.value();
  return layer;
}

NormLayer find_norm(const Unit& unit, const Architecture& architecture, std::string_view name) {
  NormLayer layer;
  layer.kind = architecture.family == Family::gpt2 ? NormKind::layer_norm : NormKind::rms_norm;
  layer.epsilon = static_cast<float>(architecture.norm_epsilon);
  const TensorSpec& weight = find_tensor(unit, std::string(name) + ".weight");
  layer.weight = weight.offset;
  layer.columns = weight.elements;
  const TensorSpec* bias = find_optional(unit, std::string(name) + ".bias");
  if (bias != nullptr) layer.bias = bias->offset;
  return layer;
}

}  // namespace strata
