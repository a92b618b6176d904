// What a run measured beside the rates of its machine: sums by lane and by kind, and the rates that follow.
#include "engine/plan/cost/step_times.h"

#include <gtest/gtest.h>

namespace strata::test {
namespace {

Program a_program() {
  Program program;
  program.instructions = {
      {.operation = Operation::copy_to_device, .lane = Lane::h2d},
      {.operation = Operation::forward, .lane = Lane::compute},
      {.operation = Operation::backward, .lane = Lane::compute},
      {.operation = Operation::copy_to_host, .lane = Lane::d2h},
      {.operation = Operation::sum_of_squares, .lane = Lane::cpu},
      {.operation = Operation::update, .lane = Lane::cpu},
      {.operation = Operation::copy_to_device, .lane = Lane::h2d, .when = When::saving},
      {.operation = Operation::copy_to_device, .lane = Lane::h2d, .serves = Serves::first_step},
      {.operation = Operation::read, .lane = Lane::read}};
  return program;
}

StepTimes times_of(const std::vector<double>& seconds) {
  std::vector<InstructionTime> times;
  times.reserve(seconds.size());
  for (const double s : seconds) times.push_back({.start = 10, .end = 10 + s});
  StepTimes sum{.step = 20};
  sum.add(a_program(), times);
  return sum;
}

double of(const StepTimes& times, Lane lane) {
  return times.by_lane[lane];
}
double of(const StepTimes& times, Operation operation) {
  return times.by_operation[static_cast<std::size_t>(operation)];
}

TEST(StepTimes, AddUpWhatEveryStepPerforms) {
  StepTimes times = times_of({1, 2, 3, 4, 5, 6, 7, 8, -1});
  EXPECT_EQ(of(times, Lane::h2d), 1);
  EXPECT_EQ(of(times, Lane::compute), 5);
  EXPECT_EQ(of(times, Lane::cpu), 11);
  EXPECT_EQ(of(times, Lane::read), 0) << "an end before the start: it did not run";
  EXPECT_EQ(of(times, Operation::copy_to_device), 1);
  EXPECT_EQ(of(times, Operation::backward), 3);
  times.add(a_program(), std::vector<InstructionTime>(9, {.start = 0, .end = 1}));
  EXPECT_EQ(of(times, Lane::compute), 7);
}

TEST(StepTimes, AreTheSameAfterReadingTheReport) {
  const StepComparison comparison = {times_of({1, 2, 3, 4, 5, 6, 7, 8, -1}),
                                     times_of({2, 2, 2, 2, 2, 2, 2, 2, 2})};
  const StepComparison read = comparison_from_json(comparison_json(comparison));
  EXPECT_EQ(read.simulated.step, 20);
  EXPECT_EQ(read.simulated.by_lane, comparison.simulated.by_lane);
  EXPECT_EQ(read.measured.by_lane, comparison.measured.by_lane);
  EXPECT_EQ(read.measured.by_operation, comparison.measured.by_operation);
  EXPECT_THROW(comparison_from_json({{"simulated_seconds", 1}}), nlohmann::json::exception);
}

TEST(StepTimes, CorrectTheRatesOfWhatTheyAreMeasuredOf) {
  MachineRates rates = {.flops_per_second = 1e12,
                        .memory_bytes_per_second = 4e10,
                        .h2d_bytes_per_second = 8e9,
                        .d2h_bytes_per_second = 8e9,
                        .nvme_read_bytes_per_second = 6e9,
                        .nvme_write_bytes_per_second = 3e9};
  const KernelWork call = {.name = "linear", .flops = 100, .bytes = 10};
  rates.kernels.add(call, 3);
  const StepComparison comparison = {times_of({1, 2, 2, 4, 5, 5, 7, 8, -1}),
                                     times_of({2, 4, 2, 4, 4, 4, 9, 9, 1})};
  const MachineRates learned = corrected(rates, comparison);
  EXPECT_DOUBLE_EQ(learned.flops_per_second, 1e12 * 4 / 6);
  EXPECT_DOUBLE_EQ(learned.kernels.seconds(call).value(), 3.0 * 6 / 4);
  EXPECT_DOUBLE_EQ(learned.h2d_bytes_per_second, 4e9);
  EXPECT_DOUBLE_EQ(learned.d2h_bytes_per_second, 8e9);
  EXPECT_DOUBLE_EQ(learned.memory_bytes_per_second, 4e10 * 10 / 8);
  EXPECT_DOUBLE_EQ(learned.nvme_read_bytes_per_second, 6e9) << "the simulated step did not use it";
  EXPECT_DOUBLE_EQ(learned.nvme_write_bytes_per_second, 3e9) << "neither has";
}

}  // namespace
}  // namespace strata::test
