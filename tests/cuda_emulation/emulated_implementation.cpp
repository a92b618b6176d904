// What this program compares with the reference: the emulated kernels. They can't be in one program with the
// CUDA device, whose launchers have the same names.
#include "engine/config/choices.h"
#include "tests/cuda_emulation/emulated_kernels.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/device/implementations.h"

namespace strata {
namespace {

/// Its second run goes through blocks and threads backwards.
class EmulatedImplementation final : public Implementation {
 public:
  ~EmulatedImplementation() override { set_order(cuda_emulation::Order::forward); }

  Kernels& kernels() override { return kernels_; }
  int runs() const override { return 2; }
  void begin_run(int run) override {
    set_order(run == 0 ? cuda_emulation::Order::forward : cuda_emulation::Order::backward);
  }

 private:
  EmulatedKernels kernels_;
};

}  // namespace

std::vector<ImplementationChoice> implementation_choices() {
  return {{"cuda_emulated",
           [](const std::string&) -> std::unique_ptr<Implementation> {
             return std::make_unique<EmulatedImplementation>();
           },
           [](const std::string&) { return std::string(); }}};
}

}  // namespace strata
