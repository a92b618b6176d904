#include "tests/support/ordered_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <span>
#include <unordered_map>
#include <variant>

#include "engine/device/kernel_calls.h"

namespace strata::test {
namespace {

/// Says of each stream how many of its pieces of work come before.
using Clock = std::vector<std::int64_t>;

void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

using Memory = std::span<const std::byte>;

/// Operands of a call row by row, since columns of one matrix may be others' business.
class Operands {
 public:
  explicit Operands(const KernelCall& call) {
    const auto add_operand = [this](const auto& operand) { add(operand); };
    call.visit([&](const auto& each) { each.operands(add_operand); });
  }
  const std::vector<Memory>& all() const { return all_; }

 private:
  void add(const void* memory, Bytes bytes) {
    if (memory != nullptr && bytes > 0)
      all_.emplace_back(static_cast<const std::byte*>(memory), static_cast<std::size_t>(bytes));
  }
  void add(const Matrix& matrix) {
    if (!matrix) return;
    if (matrix.contiguous()) return add(matrix.data, matrix.elements() * size_of(matrix.dtype));
    for (std::int64_t row = 0; row < matrix.rows; ++row)
      add(matrix.row_slice(row, 1).data, matrix.columns * size_of(matrix.dtype));
  }
  template <typename T>
  void add(std::span<T> values) {
    add(values.data(), static_cast<Bytes>(values.size_bytes()));
  }
  void add(const OptimizerState& state) {
    const bool is_own_master = state.precision == DType::fp32;
    add(state.master,
        state.elements * (is_own_master ? size_of(DType::fp32) : state.format.master_bytes(state.precision)));
    state.moments.for_each([&](Moment key, const void* moment) { add(moment, state.moment_bytes(key)); });
    add(state.gradient, state.elements * size_of(state.precision));
    add(state.parameter, state.elements * size_of(state.precision));
  }

  std::vector<Memory> all_;
};

}  // namespace

/// Thread-safe.
class OrderOfWork {
 public:
  std::size_t add_stream() {
    const std::lock_guard lock(mutex_);
    clocks_.emplace_back();
    return clocks_.size() - 1;
  }

  struct Work {
    std::size_t stream = 0;
    Clock before;
    std::int64_t number = 0;  ///< in its stream, from 1 on
    std::string name;
  };
  Work begin(std::size_t stream, const std::string& name) {
    const std::lock_guard lock(mutex_);
    ++pieces_;
    Clock& clock = clocks_[stream];
    join(clock, host_);
    if (clock.size() <= stream) clock.resize(stream + 1);
    Work work{stream, clock, clock[stream] + 1, name};
    clock[stream] = work.number;
    return work;
  }

  void touch(const Work& work, Memory memory, bool writes) {
    const std::lock_guard lock(mutex_);
    const auto first = reinterpret_cast<std::uintptr_t>(memory.data()) / kCell;
    const auto last = (reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size() - 1) / kCell;
    for (std::uintptr_t cell = first; cell <= last; ++cell) {
      Touches& touches = cells_[cell];
      expect_order(touches.write, work);
      if (writes) {
        for (const Touch& read : touches.reads) expect_order(read, work);
        touches.write = {work.stream, work.number, work.name};
        touches.reads.clear();
      } else {
        const auto own = std::ranges::find(touches.reads, work.stream, &Touch::stream);
        if (own == touches.reads.end()) {
          touches.reads.push_back({work.stream, work.number, work.name});
        } else {
          own->number = work.number;
        }
      }
    }
  }

  Clock now(std::size_t stream) {
    const std::lock_guard lock(mutex_);
    return clocks_[stream];
  }
  void stream_waits(std::size_t stream, const Clock& clock) {
    const std::lock_guard lock(mutex_);
    if (waits_++ != lost_) join(clocks_[stream], clock);
  }
  void host_waits(const Clock& clock) {
    const std::lock_guard lock(mutex_);
    join(host_, clock);
  }

  void lose_wait(std::int64_t number) { lost_ = number; }
  std::int64_t pieces() const { return pieces_; }
  std::int64_t waits() const { return waits_; }
  std::vector<std::string> without_order() const {
    const std::lock_guard lock(mutex_);
    return without_order_;
  }

 private:
  static constexpr std::uintptr_t kCell = kAlignment;  // buffers begin at multiples of it
  static constexpr std::size_t kMostSentences = 5;

  struct Touch {
    std::size_t stream = 0;
    std::int64_t number = 0;  ///< 0: none
    std::string name = {};
  };
  struct Touches {
    Touch write;
    std::vector<Touch> reads;
  };

  void expect_order(const Touch& before, const Work& work) {
    if (before.number == 0 || before.stream == work.stream) return;
    const bool has_order = before.stream < work.before.size() && before.number <= work.before[before.stream];
    if (has_order || without_order_.size() >= kMostSentences) return;
    without_order_.push_back(fmt::format("{} (stream {}, piece {}) and {} (stream {}, piece {})", before.name,
                                         before.stream, before.number, work.name, work.stream, work.number));
  }

  mutable std::mutex mutex_;
  std::vector<Clock> clocks_;
  Clock host_;
  std::unordered_map<std::uintptr_t, Touches> cells_;
  std::int64_t pieces_ = 0, waits_ = 0, lost_ = -1;
  std::vector<std::string> without_order_;
};

namespace {

struct OrderedEvent final : Event {
  OrderedEvent(OrderOfWork& order, std::unique_ptr<Event> cpu) : order(order), cpu(std::move(cpu)) {}
  bool wait(double seconds) override {
    const bool done = cpu->wait(seconds);
    if (done) order.host_waits(clock);
    return done;
  }
  double seconds_since(const Event& start) const override {
    return cpu->seconds_since(*static_cast<const OrderedEvent&>(start).cpu);
  }
  OrderOfWork& order;
  std::unique_ptr<Event> cpu;
  Clock clock;
};

/// Sees what a call writes by what has other bytes afterwards.
class OrderedKernels final : public Kernels {
 public:
  OrderedKernels(OrderOfWork& order, std::size_t stream, Kernels& cpu)
      : order_(order), stream_(stream), cpu_(cpu) {}
  void reserve_scratch(const ScratchBytes& largest) override { cpu_.reserve_scratch(largest); }
  Bytes scratch_bytes() const override { return cpu_.scratch_bytes(); }
  void run(const KernelCall& call) override {
    const OrderOfWork::Work work = order_.begin(stream_, fmt::format("kernel {}", call.kind()));
    const Operands operands(call);
    std::vector<std::vector<std::byte>> before;
    before.reserve(operands.all().size());
    for (const Memory& memory : operands.all()) before.emplace_back(memory.begin(), memory.end());
    cpu_.run(call);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const Memory memory = operands.all()[i];
      order_.touch(work, memory, std::memcmp(before[i].data(), memory.data(), memory.size()) != 0);
    }
  }

 private:
  OrderOfWork& order_;
  std::size_t stream_;
  Kernels& cpu_;
};

class OrderedStream final : public Stream {
 public:
  OrderedStream(OrderOfWork& order, std::unique_ptr<Stream> cpu)
      : order_(order),
        stream_(order.add_stream()),
        cpu_(std::move(cpu)),
        kernels_(order, stream_, cpu_->kernels()) {}

  Kernels& kernels() override { return kernels_; }
  void copy_to_device(std::byte* device, const std::byte* host, Bytes bytes) override {
    copied("copy to the device", device, host, bytes, [&] { cpu_->copy_to_device(device, host, bytes); });
  }
  void copy_to_host(std::byte* host, const std::byte* device, Bytes bytes) override {
    copied("copy to the host", host, device, bytes, [&] { cpu_->copy_to_host(host, device, bytes); });
  }
  std::unique_ptr<Event> make_event() override {
    return std::make_unique<OrderedEvent>(order_, cpu_->make_event());
  }
  void record(Event& event) override {
    auto& ordered = static_cast<OrderedEvent&>(event);
    cpu_->record(*ordered.cpu);
    ordered.clock = order_.now(stream_);
  }
  void wait(const Event& event) override {
    const auto& ordered = static_cast<const OrderedEvent&>(event);
    cpu_->wait(*ordered.cpu);
    order_.stream_waits(stream_, ordered.clock);
  }

 private:
  template <typename Copy>
  void copied(const char* name, const std::byte* to, const std::byte* from, Bytes bytes, const Copy& copy) {
    if (bytes == 0) return;
    const OrderOfWork::Work work = order_.begin(stream_, name);
    copy();
    order_.touch(work, Memory(from, static_cast<std::size_t>(bytes)), false);
    order_.touch(work, Memory(to, static_cast<std::size_t>(bytes)), true);
  }

  OrderOfWork& order_;
  std::size_t stream_;
  std::unique_ptr<Stream> cpu_;
  OrderedKernels kernels_;
};

}  // namespace

OrderedDevice::OrderedDevice(const CpuDeviceOptions& options)
    : cpu_(options), order_(std::make_unique<OrderOfWork>()) {}
OrderedDevice::~OrderedDevice() = default;

std::unique_ptr<Stream> OrderedDevice::make_stream() {
  return std::make_unique<OrderedStream>(*order_, cpu_.make_stream());
}

void OrderedDevice::lose_wait(std::int64_t number) {
  order_->lose_wait(number);
}
std::int64_t OrderedDevice::pieces_of_work() const {
  return order_->pieces();
}
std::int64_t OrderedDevice::waits() const {
  return order_->waits();
}
std::vector<std::string> OrderedDevice::without_order() const {
  return order_->without_order();
}

}  // namespace strata::test
