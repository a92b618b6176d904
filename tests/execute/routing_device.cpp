#include "tests/execute/routing_device.h"

#include "engine/device/expert_calls.h"

namespace strata::test {
namespace {

class RoutingKernels final : public Kernels {
 public:
  RoutingKernels(Kernels& kernels, Routes& routes) : kernels_(kernels), routes_(routes) {}

  void reserve_scratch(const ScratchBytes& largest) override { kernels_.reserve_scratch(largest); }
  Bytes scratch_bytes() const override { return kernels_.scratch_bytes(); }
  void run(const KernelCall& call) override {
    kernels_.run(call);
    const auto* route = call.as<RouteForward>();
    if (route == nullptr) return;
    const auto tokens = static_cast<std::size_t>(route->logits.rows);
    const std::size_t top_k = route->experts.size() / tokens;
    for (std::size_t token = 0; token < tokens; ++token) {
      const auto experts = route->experts.subspan(token * top_k, top_k);
      routes_.emplace_back(experts.begin(), experts.end());
    }
  }

 private:
  Kernels& kernels_;
  Routes& routes_;
};

class RoutingStream final : public Stream {
 public:
  RoutingStream(std::unique_ptr<Stream> stream, Routes& routes)
      : stream_(std::move(stream)), kernels_(stream_->kernels(), routes) {}

  Kernels& kernels() override { return kernels_; }
  void copy_to_device(std::byte* device, const std::byte* host, Bytes bytes) override {
    stream_->copy_to_device(device, host, bytes);
  }
  void copy_to_host(std::byte* host, const std::byte* device, Bytes bytes) override {
    stream_->copy_to_host(host, device, bytes);
  }
  std::unique_ptr<Event> make_event() override { return stream_->make_event(); }
  void record(Event& event) override { stream_->record(event); }
  void wait(const Event& event) override { stream_->wait(event); }

 private:
  std::unique_ptr<Stream> stream_;
  RoutingKernels kernels_;
};

}  // namespace

std::unique_ptr<Stream> RoutingDevice::make_stream() {
  return std::make_unique<RoutingStream>(cpu_.make_stream(), routes_);
}

}  // namespace strata::test
