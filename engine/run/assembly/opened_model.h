// A model that is used without a run: its device, its precision, and the budgets of its parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/precision.h"
#include "engine/config/choices.h"
#include "engine/device/device.h"
#include "engine/run/generate/model_source.h"
#include "engine/run/generate/unit_parameters.h"

namespace strata {

struct UseOptions {
  DeviceKind device = DeviceKind::cpu;
  std::int64_t threads = 0;  ///< that compute; 0: one per core
  /// Left out: bf16 if the device has instructions for it, else fp32.
  std::optional<Precision> precision = {};
  Bytes device_memory = kUnlimited;  ///< units that do not fit are streamed
  Bytes host_memory = kUnlimited;    ///< for streamed units; the model's files have those that do not fit
};

struct OpenedModel {
  Precision precision;
  std::unique_ptr<Device> device;
  ModelSource source;
  ParameterBudget budget;
};

/// `open` reads the model for the use that it is told. Throws ConfigError if this program has no such device,
/// and what `open` throws.
OpenedModel open_model(const UseOptions& options, const std::function<ModelSource(const ModelUse&)>& open);

/// The folder that has the model's tokenizer. Throws ConfigError, which ends with `advice`, if a checkpoint
/// has none.
std::string tokenizer_of(const ModelSource& source, const std::string& advice);

}  // namespace strata
