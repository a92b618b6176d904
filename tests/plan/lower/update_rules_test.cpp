// A program has the moments that its rule of updates keeps, and the meaning of any other program.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/config/optimizer_section.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/model/updated_matrices.h"
#include "engine/plan/passes/prefetch.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/passes/spill.h"
#include "optim/update_rule.h"
#include "tests/plan/support.h"
#include "tests/support/rule_in_run_file.h"

namespace strata::test {
namespace {

Model model_of(UpdateRule rule) {
  OptimizerSection optimizer;
  set_rule(optimizer, rule);
  Model model = build_model(tiny_model().architecture, {.optimizer = optimizer});
  EXPECT_TRUE(model.rules().contains(rule));
  return model;
}

std::vector<StrategyOptions> options_of_updates() {
  std::vector<StrategyOptions> options;
  for (const DType precision : {DType::fp32, DType::bf16}) {
    for (const std::size_t on_device : {0, 2, 5}) {
      for (const Mesh mesh : {Mesh{}, Mesh{.shard = 3}}) {
        StrategyOptions each{.precision = precision, .units_on_device = on_device, .saves = true};
        each.mesh = mesh;
        options.push_back(each);
        each.shares_out_matrices = mesh.shard > 1;
        if (each.shares_out_matrices) options.push_back(each);
      }
    }
  }
  return with_pieces(with_late_updates(std::move(options)));
}

// Invariant (UpdateRules.*): An update rule keeps only its own moments.
TEST(UpdateRules, KeepTheirMomentsAndNoOthers) {
  const std::map<UpdateRule, std::set<std::string>> moments = {
      {UpdateRule::adamw, {"exp_avg", "exp_avg_sq"}},
      {UpdateRule::sgd, {}},
      {UpdateRule::sgd_momentum, {"momentum_buffer"}},
      {UpdateRule::lion, {"exp_avg"}},
      {UpdateRule::rmsprop, {"square_avg"}},
      {UpdateRule::rmsprop_momentum, {"momentum_buffer", "square_avg"}},
      {UpdateRule::adagrad, {"sum"}},
      {UpdateRule::ademamix, {"exp_avg", "exp_avg_sq", "exp_avg_slow"}}};
  for (const auto& [rule, own] : moments) {
    const Model model = model_of(rule);
    for (const StrategyOptions& options : options_of_updates()) {
      const Program program = lower_training(model, tiny_strategy(model, options));
      std::set<std::string> kept = own;
      if (options.precision != DType::fp32) kept.insert("master");
      std::set<std::string> saved = kept;
      saved.insert("master");
      for (const Buffer& buffer : program.buffers) {
        if (buffer.kind != BufferKind::optimizer_state) continue;
        const std::string name = buffer.name->substr(buffer.name->find('/') + 1);
        EXPECT_TRUE(kept.contains(name.substr(0, name.find('[')))) << *buffer.name;
      }
      for (const Instruction& instruction : program.instructions) {
        std::set<std::string> roles;
        if (instruction.operation == Operation::update) {
          for (const Operand& operand : instruction.writes) roles.insert(std::string(name_of(operand.role)));
          std::set<std::string> expected = kept;
          expected.insert("parameter");
          EXPECT_EQ(roles, expected) << print(program, instruction);
        } else if (instruction.operation == Operation::save && instruction.unit >= 0) {
          EXPECT_TRUE(saved.contains(std::string(name_of(instruction.reads.front().role))))
              << print(program, instruction);
        }
      }
    }
  }
}

TEST(UpdateRules, DifferInTheStateOfAProgramAndInNothingElse) {
  const auto outline = [](const Program& program) {
    std::vector<std::string> lines;
    for (const Instruction& instruction : program.instructions) {
      if (instruction.operation == Operation::save || instruction.operation == Operation::update) continue;
      lines.push_back(print(program, instruction));
    }
    return lines;
  };
  const auto without_numbers = [](std::string line) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += line[i];
      if (line[i] != '#') continue;
      while (i + 1 < line.size() && std::isdigit(static_cast<unsigned char>(line[i + 1])) != 0) ++i;
    }
    return text;
  };
  for (StrategyOptions options : options_of_updates()) {
    options.saves = false;
    const auto lines = [&](UpdateRule rule) {
      const Model model = model_of(rule);
      std::vector<std::string> all = outline(lower_training(model, tiny_strategy(model, options)));
      for (std::string& line : all) line = without_numbers(line);
      // What moves state of the optimizer between tiers is not there without it.
      std::erase_if(all, [](const std::string& line) {
        return std::ranges::any_of(kMoments, [&](Moment moment) {
          return line.find("/" + std::string(name_of(moment))) != std::string::npos;
        });
      });
      return all;
    };
    const std::vector<std::string> expected = lines(UpdateRule::adamw);
    for (const UpdateRule rule : kUpdateRules) {
      if (rule == UpdateRule::adamw || needs_whole_tensors(rule)) continue;
      EXPECT_EQ(lines(rule), expected) << name_of(rule);
    }
  }
}

/// The instructions of block 0 with this operation.
std::vector<Instruction> of_block(const Program& program, Operation operation) {
  std::vector<Instruction> found;
  for (const Instruction& instruction : program.instructions)
    if (instruction.unit == 1 && instruction.operation == operation) found.push_back(instruction);
  return found;
}

TEST(UpdateRules, MuonMixesMomentumOrthogonalizesTheWholeUnitAndUpdates) {
  const Model model = model_of(UpdateRule::muon);
  const Unit& block = model.units[1];
  std::int64_t matrices = 0, vectors = 0;
  for (const TensorSpec& tensor : block.tensors)
    (tensor.hf_shape.size() == 2 ? matrices : vectors) += tensor.elements;
  for (const StrategyOptions& options : options_of_updates()) {
    const Strategy strategy = tiny_strategy(model, options);
    const Program program = lower_training(model, strategy);
    const std::vector<Instruction> mixes = of_block(program, Operation::mix_momentum),
                                   orthogonal = of_block(program, Operation::precondition),
                                   updates = of_block(program, Operation::update);
    ASSERT_EQ(orthogonal.size(), 1U);
    EXPECT_EQ(orthogonal.front().flops,
              direction_flops(updated_matrices(model, block),
                              strategy.shares_out_matrices ? strategy.mesh.shard : 1));
    std::int64_t momentum = 0, squares = 0;
    for (const Instruction& mix : mixes) {
      EXPECT_EQ(mix.find(role_of(Moment::exp_avg)), -1);
      EXPECT_GE(mix.find(Role::gradient), 0);
      momentum += mix.find_operand(role_of(Moment::momentum_buffer))->elements;
    }
    for (const Instruction& update : updates) {
      EXPECT_EQ(update.find(role_of(Moment::momentum_buffer)), -1);
      const Operand* of_vectors = update.find_operand(role_of(Moment::exp_avg_sq));
      squares += of_vectors == nullptr ? 0 : of_vectors->elements;
    }
    if (strategy.mesh.shard == 1) {
      EXPECT_GE(momentum, matrices);
      EXPECT_LT(momentum, matrices + vectors);
      EXPECT_GE(squares, vectors);
      EXPECT_LT(squares, matrices);
      EXPECT_EQ(orthogonal.front().find(Role::source), -1);
    } else if (strategy.shares_out_matrices) {
      EXPECT_EQ(orthogonal.front().find(Role::source), -1);
      EXPECT_GE(orthogonal.front().find_operand(Role::gradient)->elements, block.elements) << "of all ranks";
    } else {
      const Operand* all = orthogonal.front().find_operand(Role::source);
      ASSERT_NE(all, nullptr);
      EXPECT_GE(all->elements, block.elements) << "of all ranks";
    }
  }
}

TEST(UpdateRules, FactorsStayOnTheDeviceWhereverMomentsAre) {
  for (const UpdateRule rule : {UpdateRule::normuon, UpdateRule::adafactor, UpdateRule::adagrad_rowwise}) {
    const Model model = model_of(rule);
    for (const StrategyOptions& options : options_of_updates()) {
      const Strategy strategy = tiny_strategy(model, options);
      const Program program = lower_training(model, strategy);
      const std::vector<Instruction> found = of_block(program, Operation::precondition);
      ASSERT_EQ(found.size(), 1U);
      const Operand* factors = found.front().find_operand(Role::factors);
      ASSERT_NE(factors, nullptr);
      EXPECT_EQ(factors->elements, model.units[1].factor_elements);
      EXPECT_EQ(program.buffer(factors->buffer).tier, Tier::device);
      EXPECT_TRUE(program.buffer(factors->buffer).persistent);
      EXPECT_GE(found.front().find(Role::step_scalars), 0);
      const auto sums = of_block(program, Operation::all_reduce);
      const bool brings_factors =
          std::ranges::any_of(sums, [](const Instruction& sum) { return sum.find(Role::factors) >= 0; });
      EXPECT_EQ(brings_factors, strategy.shares_out_matrices);
    }
  }
}

/// A checkpoint is finished when all of it is saved, wherever transfers move updates.
void expect_saves_before_the_end(const Program& program) {
  for (const Serves serves : {Serves::step, Serves::step_before}) {
    bool is_finished = false;
    for (const Instruction& instruction : program.instructions) {
      if (instruction.serves != serves) continue;
      is_finished |= instruction.operation == Operation::finish_checkpoint;
      EXPECT_FALSE(is_finished && instruction.operation == Operation::save) << print(program, instruction);
    }
  }
}

TEST(UpdateRules, KeepTheMeaningOfTheProgramAtEveryBudgetAndOnDrives) {
  // AdamW is that of all other tests; a program knows only the number of moments.
  for (const UpdateRule rule :
       {UpdateRule::sgd, UpdateRule::sgd_momentum, UpdateRule::rmsprop_momentum, UpdateRule::ademamix,
        UpdateRule::muon, UpdateRule::normuon, UpdateRule::adafactor}) {
    const Model model = model_of(rule);
    for (const StrategyOptions& options : options_of_updates()) {
      const Program plain = lower_training(model, tiny_strategy(model, options));
      const auto expected = run_in_order(plain, 3);
      const Bytes smallest = near_bytes(plain, kDevicePair).smallest;
      for (const Bytes budget : {smallest, 2 * smallest, kUnlimited}) {
        const Program placed =
            place(prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget));
        verify(placed, kNoLimits);
        expect_saves_before_the_end(placed);
        for (std::uint32_t seed = 0; seed < 2; ++seed)
          EXPECT_EQ(run_in_random_order(placed, 3, seed), expected);
      }
      const Program on_drives = spill(plain, find_spill_order(plain, {}).buffers);
      const Bytes least = near_bytes(on_drives, kHostPair).smallest;
      for (const Bytes budget : {least, kUnlimited})
        EXPECT_EQ(run_in_order(keep_resident(on_drives, kHostPair, budget), 3), expected);
    }
  }
}

}  // namespace
}  // namespace strata::test
