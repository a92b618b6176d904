// The parameters of a model's units for passes forward. Units stay on the device as far as its budget goes.
// The rest are streamed through two buffers of the device: one is filled while the other is computed with.
// They come from host memory if it has room for them, else from the model's files in every sweep.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/arena.h"
#include "base/dtype.h"
#include "engine/device/device.h"
#include "engine/model/graph/graph_shape.h"
#include "engine/run/checkpoint/hf_folder.h"

namespace strata {

struct Model;

/// For parameters alone.
struct ParameterBudget {
  Bytes device = kUnlimited, host = kUnlimited;
};

/// Waits for what was issued before the event's record. Throws DeviceError if the device does not answer.
void await_event(Event& event);

/// One thread uses it; another one fetches.
class UnitParameters {
 public:
  /// Reads all that stays. `read` is called by one thread at a time. Throws ConfigError that names what the
  /// device has to have at least if the budget is smaller, and what `read` throws.
  UnitParameters(Device& device, const Model& model, DType precision, ReadParameters read,
                 const ParameterBudget& budget);
  ~UnitParameters();
  UnitParameters(const UnitParameters&) = delete;
  UnitParameters& operator=(const UnitParameters&) = delete;

  /// Gives `memory` the regions of the unit's parameters, which stay until release(). REQUIRES: units are
  /// asked for in the model's order, in one sweep after another.
  void acquire(std::size_t unit, UnitMemory& memory);
  /// What was issued to `stream` so far is the last that reads them.
  void release(std::size_t unit, Stream& stream);

  std::size_t streamed_units() const { return streamed_.size(); }
  Bytes device_bytes() const { return device_bytes_; }
  Bytes host_bytes() const { return host_.size(); }
  /// Whether streamed units are read from the model's files in every sweep.
  bool reads_files() const { return !streamed_.empty() && !is_on_host_; }

 private:
  struct Slot {
    std::byte* memory = nullptr;
    std::unique_ptr<Event> released;
  };
  static constexpr std::size_t kSlots = 2;

  Bytes bytes_of(std::size_t unit) const;
  Bytes frozen_offset(std::size_t unit) const;
  void choose_units(const ParameterBudget& budget);
  void load_resident();
  void begin_streaming(const ParameterBudget& budget);
  /// All of a unit as the device has it.
  void read_unit(std::size_t unit, std::byte* to);
  /// From the model's files to the device.
  void load(std::size_t unit, std::byte* to);
  void copy_to_device(std::byte* device, const std::byte* host, Bytes bytes);
  void fetch_all();
  void fetch(std::size_t visit);

  Device& device_;
  const Model& model_;
  DType precision_;
  ReadParameters read_;
  std::vector<float> values_;          ///< on their way from `read`
  std::vector<std::size_t> streamed_;  ///< units, in their order
  bool is_on_host_ = false;            ///< what is streamed
  std::unique_ptr<DeviceMemory> memory_;
  Bytes device_bytes_ = 0, slot_bytes_ = 0;
  std::vector<std::byte*> places_;  ///< by unit: on the device, or null if it is streamed
  Arena host_;                     ///< room to read a unit if the device needs it, and homes of streamed ones
  std::vector<std::byte*> homes_;  ///< by number in streamed_, if they are on the host
  std::unique_ptr<PinnedHostMemory> pinned_;
  std::unique_ptr<Stream> copies_;
  std::unique_ptr<Event> copied_;
  Slot slots_[kSlots];

  // Visits of streamed units, counted over all sweeps; of each its slot by turns.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t fetched_ = 0, acquired_ = 0, released_ = 0;
  std::exception_ptr error_;
  bool is_ending_ = false;
  std::thread fetching_;
};

}  // namespace strata
