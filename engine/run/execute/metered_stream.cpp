#include "engine/run/execute/metered_stream.h"

#include <utility>

#include "engine/device/kernel_calls.h"

namespace strata {
namespace {

class MeteredKernels final : public Kernels {
 public:
  MeteredKernels(Kernels& kernels, Meter& meter) : kernels_(kernels), meter_(meter) {}

  void reserve_scratch(const ScratchBytes& largest) override { kernels_.reserve_scratch(largest); }
  Bytes scratch_bytes() const override { return kernels_.scratch_bytes(); }

  void run(const KernelCall& call) override {
    const auto touch = [this](const auto& operand) { meter_.touch(operand); };
    call.visit([&](const auto& each) { each.operands(touch); });
    kernels_.run(call);
  }

 private:
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
