// What this machine can do, measured in a fraction of a second before training: the denominators of MFU and
// of the bound. What a run then does faster raises them (engine/plan/planner/reached_rates.h).
#pragma once

#include <span>

#include "base/precision.h"
#include "collectives/communicator.h"
#include "engine/device/device.h"
#include "engine/plan/cost/rates.h"
#include "engine/run/execute/choose_products.h"

namespace strata {

/// FLOPs per second of a large matrix product: the best of a few trials.
double product_rate(Device& device, const Precision& precision);

/// Measures the machine's rates, each as the best of a few trials. Matrix products in `precision` are a large
/// one and the largest that passes of `models` make. An AdamW update of host memory runs on `threads`
/// threads, and copies go in each direction of the device. Both are as large as the models, so that caches
/// hold as much of them as in the run, up to 16 Mi parameters and 64 MiB; that large without models. A
/// limited link counts at its limit. If the cores copy, the rate of one core's copies is measured, too.
///
/// Every rank of `ranks` calls it, with equal arguments; null is a run of one. All begin each trial together,
/// so that ranks that share cores share them here as they do in the run, and all get the same rates.
MachineRates measure_machine(Device& device, const Precision& precision, const LinkLimit& link, int threads,
                             std::span<const ProductsOf> models = {}, Communicator* ranks = nullptr);

/// How fast ranks exchange values in host memory: `node`, the ranks of this host, and all of `world`, if that
/// has ranks of other hosts. Every rank of `world` calls it. REQUIRES: each host has as many, numbered one
/// after another.
RankLinks measure_links(Communicator& world, Communicator& node);

}  // namespace strata
