// Trains a run file with Strata as a library, and continues a text: train RUN.yaml [KEY=VALUE...]
#include <strata/strata.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc < 2) throw std::invalid_argument("name a run file");
  const strata::Run run(argv[1], {argv + 2, argv + argc});
  const strata::RunPlan plan = run.plan();
  std::cout << plan.memory.device << " bytes on the device, " << plan.step_seconds << " s per step\n";
  const strata::TrainedRun trained = run.train({.on_step = [](const strata::TrainedStep& step) {
    std::cout << "step " << step.number << ", loss " << step.loss << '\n';
    return true;  // false would stop the run
  }});
  std::cout << "state hash " << trained.state_hash << '\n';
  strata::TextModel model(trained.checkpoint, {.tokenizer = "bytes"});
  std::cout << model.generate("It is a truth", {.max_tokens = 20}) << '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
