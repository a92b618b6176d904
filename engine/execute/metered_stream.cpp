#include "engine/execute/metered_stream.h"

#include <initializer_list>
#include <utility>

namespace strata {
namespace {

class MeteredKernels final : public Kernels {
 public:
  MeteredKernels(Kernels& kernels, Meter& meter) : kernels_(kernels), meter_(meter) {}

  void reserve_scratch(const ScratchBytes& largest) override { kernels_.reserve_scratch(largest); }
  Bytes scratch_bytes() const override { return kernels_.scratch_bytes(); }

  void matmul(const Product& call) override {
    touch({call.a, call.b, call.out, call.bias});
    kernels_.matmul(call);
  }
  void add_column_sums(const Matrix& x, const Matrix& gradient) override {
    touch({x, gradient});
    kernels_.add_column_sums(x, gradient);
  }
  void norm(const NormForward& call) override {
    touch({call.input, call.addend, call.sum, call.weight, call.bias, call.out, call.mean,
           call.reciprocal_deviation});
    kernels_.norm(call);
  }
  void norm_backward(const NormBackward& call) override {
    touch({call.input, call.weight, call.mean, call.reciprocal_deviation, call.out_gradient, call.addend,
           call.input_gradient, call.weight_gradient, call.bias_gradient});
    kernels_.norm_backward(call);
  }
  void attention(const AttentionForward& call) override {
    touch({call.query, call.key, call.value, call.out, call.log_sum_exp});
    kernels_.attention(call);
  }
  void attention_backward(const AttentionBackward& call) override {
    touch({call.query, call.key, call.value, call.out, call.log_sum_exp, call.out_gradient,
           call.query_gradient, call.key_gradient, call.value_gradient});
    kernels_.attention_backward(call);
  }
  void rope(const Rope& call) override {
    touch({call.x, call.cosine, call.sine});
    kernels_.rope(call);
  }
  void gelu(const Matrix& x, const Matrix& out) override {
    touch({x, out});
    kernels_.gelu(x, out);
  }
  void gelu_backward(const Matrix& x, const Matrix& out_gradient, const Matrix& x_gradient) override {
    touch({x, out_gradient, x_gradient});
    kernels_.gelu_backward(x, out_gradient, x_gradient);
  }
  void swiglu(const Matrix& gate_up, const Matrix& out) override {
    touch({gate_up, out});
    kernels_.swiglu(gate_up, out);
  }
  void swiglu_backward(const Matrix& gate_up, const Matrix& out_gradient,
                       const Matrix& gate_up_gradient) override {
    touch({gate_up, out_gradient, gate_up_gradient});
    kernels_.swiglu_backward(gate_up, out_gradient, gate_up_gradient);
  }
  void embedding(std::span<const std::int32_t> tokens, const Matrix& table, const Matrix& positions,
                 std::int64_t sequence, const Matrix& out) override {
    meter_.touch(tokens);
    touch({table, positions, out});
    kernels_.embedding(tokens, table, positions, sequence, out);
  }
  void embedding_backward(const EmbeddingBackward& call) override {
    meter_.touch(call.tokens);
    touch({call.out_gradient, call.table_gradient, call.positions_gradient});
    kernels_.embedding_backward(call);
  }
  void cross_entropy(const CrossEntropy& call) override {
    meter_.touch(call.targets);
    meter_.touch(call.loss_scale, sizeof(float));
    touch({call.logits, call.losses});
    kernels_.cross_entropy(call);
  }
  void add(const Matrix& a, const Matrix& b, const Matrix& out) override {
    touch({a, b, out});
    kernels_.add(a, b, out);
  }
  void cast(const Matrix& x, const Matrix& out) override {
    touch({x, out});
    kernels_.cast(x, out);
  }
  void zero(const Matrix& x) override {
    touch({x});
    kernels_.zero(x);
  }
  void copy_rows(const Matrix& x, std::span<const std::int32_t> rows, const Matrix& out) override {
    meter_.touch(rows);
    touch({x, out});
    kernels_.copy_rows(x, rows, out);
  }
  void sum_rows(const RowSum& call) override {
    meter_.touch(call.rows);
    touch({call.values, call.out});
    kernels_.sum_rows(call);
  }
  void adamw(const AdamWUpdate& call) override {
    meter_.touch(call.scalars, sizeof(StepScalars));
    meter_.touch(call.state);
    kernels_.adamw(call);
  }
  void sum_of_squares(const Matrix& x, double* sum) override {
    meter_.touch(sum, sizeof(double));
    touch({x});
    kernels_.sum_of_squares(x, sum);
  }

 private:
  void touch(std::initializer_list<Matrix> operands) {
    for (const Matrix& operand : operands) meter_.touch(operand);
  }

  Kernels& kernels_;
  Meter& meter_;
};

class MeteredStream final : public Stream {
 public:
  MeteredStream(std::unique_ptr<Stream> stream, Meter& meter) : stream_(std::move(stream)), meter_(meter) {}

  /// Made at the first call, as those of a device may be: a stream of copies needs none.
  Kernels& kernels() override {
    if (!kernels_) kernels_ = std::make_unique<MeteredKernels>(stream_->kernels(), meter_);
    return *kernels_;
  }
  void copy_to_device(std::byte* device, const std::byte* host, Bytes bytes) override {
    count(Link::h2d, device, host, bytes);
    stream_->copy_to_device(device, host, bytes);
  }
  void copy_to_host(std::byte* host, const std::byte* device, Bytes bytes) override {
    count(Link::d2h, device, host, bytes);
    stream_->copy_to_host(host, device, bytes);
  }

  std::unique_ptr<Event> make_event() override { return stream_->make_event(); }
  void record(Event& event) override { stream_->record(event); }
  void wait(const Event& event) override { stream_->wait(event); }
  void begin_range(const char* name) override { stream_->begin_range(name); }
  void end_range() override { stream_->end_range(); }

 private:
  void count(Link link, const std::byte* device, const std::byte* host, Bytes bytes) {
    meter_.touch(device, bytes);
    meter_.touch(host, bytes);
    meter_.move(link, bytes);
  }

  std::unique_ptr<Stream> stream_;
  Meter& meter_;
  std::unique_ptr<MeteredKernels> kernels_;
};

}  // namespace

std::unique_ptr<Stream> meter_stream(std::unique_ptr<Stream> stream, Meter& meter) {
  return std::make_unique<MeteredStream>(std::move(stream), meter);
}

}  // namespace strata
