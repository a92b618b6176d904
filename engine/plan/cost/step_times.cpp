#include "engine/plan/cost/step_times.h"

#include <string>
#include <utility>

#include "base/nth.h"

namespace strata {
namespace {

constexpr const char* kSimulated = "simulated_seconds";
constexpr const char* kMeasured = "measured_seconds";

nlohmann::json both(double simulated, double measured) {
  return {{kSimulated, simulated}, {kMeasured, measured}};
}

/// How many times longer it took than simulated; 1 if it was not simulated or not measured.
double ratio(double simulated, double measured) {
  return simulated > 0 && measured > 0 ? measured / simulated : 1;
}

constexpr std::array kPasses = {Operation::forward, Operation::backward, Operation::input_gradient,
                                Operation::weight_gradient};

double passes_of(const StepTimes& times) {
  double seconds = 0;
  for (const Operation pass : kPasses) seconds += nth(times.by_operation, pass);
  return seconds;
}

}  // namespace

void StepTimes::add(const Program& program, std::span<const InstructionTime> times) {
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (!instruction.is_of_every_step() || !times[i].has_run()) continue;
    const double seconds = times[i].end - times[i].start;
    by_lane[instruction.lane] += seconds;
    nth(by_operation, instruction.operation) += seconds;
  }
}

nlohmann::json comparison_json(const StepComparison& comparison) {
  const auto& [simulated, measured] = comparison;
  nlohmann::json json = both(simulated.step, measured.step), lanes = nlohmann::json::object(),
                 operations = nlohmann::json::object();
  for (const Lane lane : kLanes) {
    if (simulated.by_lane[lane] > 0 || measured.by_lane[lane] > 0)
      lanes[std::string(name_of(lane))] = both(simulated.by_lane[lane], measured.by_lane[lane]);
  }
  for (std::size_t o = 0; o < kOperations; ++o) {
    if (simulated.by_operation[o] > 0 || measured.by_operation[o] > 0)
      operations[std::string(name_of(static_cast<Operation>(o)))] =
          both(simulated.by_operation[o], measured.by_operation[o]);
  }
  json["lanes"] = std::move(lanes);
  json["operations"] = std::move(operations);
  return json;
}

StepComparison comparison_from_json(const nlohmann::json& json) {
  StepComparison comparison;
  const auto read = [](const nlohmann::json& from, double& simulated, double& measured) {
    simulated = from.at(kSimulated).get<double>();
    measured = from.at(kMeasured).get<double>();
  };
  auto& [simulated, measured] = comparison;
  read(json, simulated.step, measured.step);
  const nlohmann::json &lanes = json.at("lanes"), &operations = json.at("operations");
  for (const Lane lane : kLanes) {
    const auto found = lanes.find(name_of(lane));
    if (found != lanes.end()) read(*found, simulated.by_lane[lane], measured.by_lane[lane]);
  }
  for (std::size_t o = 0; o < kOperations; ++o) {
    const auto found = operations.find(name_of(static_cast<Operation>(o)));
    if (found != operations.end()) read(*found, simulated.by_operation[o], measured.by_operation[o]);
  }
  return comparison;
}

MachineRates corrected(MachineRates rates, const StepComparison& comparison) {
  const auto& [simulated, measured] = comparison;
  const double passes = ratio(passes_of(simulated), passes_of(measured));
  rates.flops_per_second /= passes;
  rates.kernels.speed_up(1 / passes);
  constexpr std::array<std::pair<Lane, double MachineRates::*>, 5> kRates = {
      {{Lane::h2d, &MachineRates::h2d_bytes_per_second},
       {Lane::d2h, &MachineRates::d2h_bytes_per_second},
       {Lane::read, &MachineRates::nvme_read_bytes_per_second},
       {Lane::write, &MachineRates::nvme_write_bytes_per_second},
       {Lane::cpu, &MachineRates::memory_bytes_per_second}}};
  for (const auto& [lane, rate] : kRates) {
    rates.*rate /= ratio(simulated.by_lane[lane], measured.by_lane[lane]);
  }
  return rates;
}

}  // namespace strata
