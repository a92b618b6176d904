// The devices of this build.
#include <utility>

#include "tests/device/implementations.h"
#include "tests/support/devices.h"

namespace strata {
namespace {

class DeviceImplementation final : public Implementation {
 public:
  explicit DeviceImplementation(std::unique_ptr<Device> device)
      : device_(std::move(device)), stream_(device_->make_stream()) {}

  Kernels& kernels() override { return stream_->kernels(); }

  std::byte* place(std::span<std::byte> host) override {
    if (device_->host_addressable()) return host.data();
    const auto bytes = static_cast<Bytes>(host.size());
    std::unique_ptr<DeviceMemory> memory = device_->allocate(bytes);
    stream_->copy_to_device(memory->data(), host.data(), bytes);
    placed_.push_back({host, std::move(memory)});
    return placed_.back().memory->data();
  }

  void bring_back() override {
    for (const Placed& placed : placed_) {
      stream_->copy_to_host(placed.host.data(), placed.memory->data(),
                            static_cast<Bytes>(placed.host.size()));
    }
    const std::unique_ptr<Event> done = stream_->make_event();
    stream_->record(*done);
    EXPECT_TRUE(done->wait(60));
    placed_.clear();
  }

  int runs() const override { return 2; }

 private:
  struct Placed {
    std::span<std::byte> host;
    std::unique_ptr<DeviceMemory> memory;
  };

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Placed> placed_;
};

std::unique_ptr<Implementation> make_implementation(const std::string& name) {
  return std::make_unique<DeviceImplementation>(test::make_device(name, {.threads = 2, .link = {}}));
}

}  // namespace

std::vector<ImplementationChoice> implementation_choices() {
  std::vector<ImplementationChoice> result;
  for (const std::string& name : test::device_names()) {
    result.push_back({name, &make_implementation, &test::why_no_device});
  }
  return result;
}

}  // namespace strata
