// Which of a model's parameters are packed, and what is made of them again.
#include "engine/model/packing.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/float8.h"
#include "base/precision.h"
#include "engine/config/adapter_section.h"
#include "engine/config/choices.h"
#include "engine/device/state_calls.h"
#include "engine/model/build_model.h"
#include "engine/model/flat_range.h"
#include "engine/model/model.h"
#include "engine/model/split_model.h"
#include "tests/model/tiny_model.h"

namespace strata {
namespace {

/// Names of tensors that lie in stretches of codes, and of those that don't; all of each.
struct Names {
  std::set<std::string> coded, exact;
};

Names names_in(const Unit& unit, const Packing& packing, Flat flat) {
  Names names;
  for (const TensorSpec& tensor : unit.tensors) {
    if (tensor.flat != flat) continue;
    bool is_found = false;
    for (const PackedStretch& stretch : packing.parts.front()) {
      if (tensor.offset < stretch.first || tensor.offset + tensor.elements > stretch.first + stretch.count)
        continue;
      EXPECT_FALSE(std::exchange(is_found, true)) << tensor.hf_name;
      (stretch.has_codes() ? names.coded : names.exact).insert(tensor.hf_name);
    }
    EXPECT_TRUE(is_found) << tensor.hf_name;
  }
  return names;
}

Packing whole(const Model& model, const Unit& unit, Flat flat = Flat::trained,
              const PackingFormat& format = {}) {
  return packing_of(model, unit, flat, format, unit.elements_of(flat), 1);
}

bool is_linear_layers(const TensorSpec& tensor) {
  const bool is_expert = tensor.hf_name.find("expert") != std::string::npos;
  const bool is_router = tensor.hf_name.find(".gate.weight") != std::string::npos;
  return tensor.hf_shape.size() == 2 && !is_expert && !is_router;
}

// Invariant (Packing.*): Packed parameters change no result.
TEST(Packing, IsOfTheMatricesOfBlocksThatProductsRound) {
  for (auto& [name, architecture] : test::tiny_architectures()) {
    SCOPED_TRACE(name);
    architecture.intermediate = 32;  // whole runs of codes
    const Model model = build_model(architecture, {.rounding = Rounding::e4m3});
    EXPECT_FALSE(whole(model, model.embedding()));
    EXPECT_FALSE(whole(model, model.head()));
    EXPECT_FALSE(whole(build_model(architecture), model.units[1]));
    const Unit& block = model.units[1];
    const Packing packing = whole(model, block);
    ASSERT_TRUE(packing);
    const Names names = names_in(block, packing, Flat::trained);
    for (const TensorSpec& tensor : block.tensors)
      EXPECT_EQ(names.coded.contains(tensor.hf_name), is_linear_layers(tensor)) << tensor.hf_name;
  }
}

/// Beside any precision, and beside adapters, which are trained.
// Invariant (Packing.InBlocks*): Blocks of codes are those of bitsandbytes.
TEST(Packing, InBlocksIsOfTheLinearLayersOfBlocks) {
  const AdapterSection adapter = {
      .type = AdapterType::lora, .rank = 2, .alpha = 2, .targets = {AdapterSection::kAllLinear}, .path = ""};
  for (const auto& [name, architecture] : test::tiny_architectures()) {
    SCOPED_TRACE(name);
    const Model model = build_model(architecture, {.adapter = adapter});
    for (const Unit& unit : model.units) {
      const bool is_block = &unit != &model.embedding() && &unit != &model.head();
      for (const ParameterFormat as : {ParameterFormat::int8, ParameterFormat::nf4}) {
        const PackingFormat format = {as, DType::fp32};
        EXPECT_EQ(static_cast<bool>(whole(model, unit, Flat::frozen, format)), is_block) << unit.name;
        if (!is_block) continue;
        const Names names = names_in(unit, whole(model, unit, Flat::frozen, format), Flat::frozen);
        for (const TensorSpec& tensor : unit.tensors) {
          EXPECT_EQ(names.coded.contains(tensor.hf_name), !tensor.is_adapter && is_linear_layers(tensor))
              << tensor.hf_name;
        }
      }
    }
  }
}

/// Half a byte for each element of nf4 and a byte for each of int8, a scale for each block, and what is
/// between matrices as it is; all at cache lines.
TEST(Packing, InBlocksTakesTheBytesOfCodesAndScales) {
  const Model model = build_model(test::tiny_architectures().front().architecture, {.freeze = {"*.h.*"}});
  const Unit& block = model.units[1];
  for (const PackingFormat& format : {PackingFormat{ParameterFormat::nf4, DType::fp32},
                                      {ParameterFormat::nf4, DType::bf16},
                                      {ParameterFormat::int8, DType::fp16}}) {
    const Packing packing = whole(model, block, Flat::frozen, format);
    const bool is_nf4 = format.as == ParameterFormat::nf4;
    Bytes bytes = 0;
    std::int64_t end = 0;
    const auto add_exact = [&](std::int64_t first) {
      bytes += align_up((first - end) * size_of(format.precision), kPackedAlignment);
    };
    for (const TensorSpec& tensor : block.tensors) {
      if (!tensor.is_linear) continue;
      add_exact(tensor.offset);
      const std::int64_t elements = tensor.elements;
      const std::int64_t blocks = is_nf4 ? (elements + 63) / 64 : tensor.hf_shape.front();
      bytes += align_up(is_nf4 ? (elements + 1) / 2 : elements, kPackedAlignment);
      bytes += align_up(4 * blocks, kPackedAlignment);
      end = tensor.offset + elements;
    }
    add_exact(block.frozen_elements);
    EXPECT_EQ(packing.bytes(), bytes);
  }
}

/// The elements of a block on a rank are neighbours in one block of the whole tensor.
TEST(Packing, InBlocksIsThatOfTheWholeOnRanksThatShareLayers) {
  const Model whole = build_model(test::tiny_llama_to_split(), {.freeze = {"model.layers.*"}});
  for (const std::int64_t ranks : {2, 4}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Model model = split_model(whole, tensor_split(ranks, rank));
      const Unit& block = model.units[1];
      for (const ParameterFormat as : {ParameterFormat::int8, ParameterFormat::nf4}) {
        for (const std::int64_t parts : {1, 3}) {
          const std::int64_t part_elements = align_up((block.frozen_elements + parts - 1) / parts, 64);
          const Packing packing =
              packing_of(model, block, Flat::frozen, {as, DType::fp32}, part_elements, parts);
          ASSERT_TRUE(packing);
          for (std::size_t part = 0; part < packing.parts.size(); ++part) {
            for (const PackedStretch& stretch : packing.parts[part]) {
              EXPECT_EQ(stretch.at % kPackedAlignment, 0);
              if (!stretch.has_blocks()) continue;
              const std::int64_t first = static_cast<std::int64_t>(part) * part_elements + stretch.first;
              // By block: the whole's, and by how much elements there lie beyond those here.
              std::map<std::int64_t, std::set<std::pair<std::int64_t, std::int64_t>>> found;
              for (const TensorRun& run : runs_in(block, {first, stretch.count, Flat::frozen})) {
                for (std::int64_t i = 0; i < run.count(); ++i) {
                  const std::int64_t here = stretch.before + run.at + i, there = run.first + i;
                  found[here / stretch.block].emplace(there / whole_block(*run.tensor, as), there - here);
                }
              }
              EXPECT_EQ(std::ssize(found), stretch.blocks());
              for (const auto& [number, places] : found) EXPECT_EQ(places.size(), 1U) << number;
            }
          }
        }
      }
    }
  }
}

TEST(Packing, SeesOnlyWhatIsOfItsFlatParameter) {
  const Architecture architecture = test::tiny_architectures().front().architecture;
  const Model plain = build_model(architecture, {.rounding = Rounding::e4m3});
  const std::string frozen = plain.units[1].tensors.back().hf_name;
  const Model model = build_model(architecture, {.rounding = Rounding::e4m3, .freeze = {frozen}});
  const Names trained = names_in(model.units[1], whole(model, model.units[1]), Flat::trained);
  EXPECT_FALSE(trained.coded.contains(frozen) || trained.exact.contains(frozen));
}

/// The norms of rows that have magnitudes are those of the weight as it is.
TEST(Packing, LeavesOutWhatNormsRead) {
  Architecture architecture = test::tiny_llama_to_split();
  architecture.intermediate = 32;
  AdapterSection dora;
  dora.type = AdapterType::dora;
  dora.targets = {"k_proj", "down_proj"};
  const Model model = build_model(architecture, {.rounding = Rounding::e4m3, .adapter = dora});
  const Unit& block = model.units[1];
  const Names names = names_in(block, whole(model, block, Flat::frozen), Flat::frozen);
  for (const TensorSpec& tensor : block.tensors) {
    const bool is_read =
        tensor.hf_name.ends_with("k_proj.weight") || tensor.hf_name.ends_with("down_proj.weight");
    if (tensor.flat == Flat::trained) continue;
    EXPECT_EQ(names.coded.contains(tensor.hf_name), tensor.hf_shape.size() == 2 && !is_read)
        << tensor.hf_name;
  }
}

std::vector<bfloat16> elements_of(std::int64_t count) {
  std::vector<bfloat16> elements;
  for (std::int64_t i = 0; i < count; ++i)
    elements.emplace_back(std::sin(static_cast<float>(i)) * std::ldexp(1.0F, static_cast<int>(i % 13) - 6));
  return elements;
}

/// Parts of any length, with padding behind the last.
TEST(Packing, GivesBackWhatProductsMakeOfCodesAndAllElseAsItWas) {
  const Model model =
      build_model(test::tiny_architectures().front().architecture, {.rounding = Rounding::e4m3});
  const Unit& block = model.units[1];
  for (const std::int64_t parts : {1, 2, 3, 7}) {
    const std::int64_t part_elements = align_up((block.elements + parts - 1) / parts, 64);
    const Packing packing = packing_of(model, block, Flat::trained, {}, part_elements, parts);
    ASSERT_EQ(std::ssize(packing.parts), parts);
    const std::vector<bfloat16> elements = elements_of(parts * part_elements);
    std::vector<std::byte> packed(static_cast<std::size_t>(packing.bytes()));
    std::int64_t in_stretches = 0;
    for (std::size_t part = 0; part < packing.parts.size(); ++part) {
      const bfloat16* own = elements.data() + static_cast<std::int64_t>(part) * part_elements;
      std::byte* form = packed.data() + static_cast<Bytes>(part) * packing.part_bytes;
      pack(packing, part, own, form);
      std::vector<float> again(static_cast<std::size_t>(part_elements));
      read_packed(packing, part, form, 0, again);
      for (const PackedStretch& stretch : packing.parts[part]) {
        in_stretches += stretch.count;
        EXPECT_LE(stretch.at + stretch.count, packing.part_bytes);
        float largest = 0;
        for (std::int64_t i = 0; i < stretch.count; ++i)
          largest = std::max(largest, std::abs(static_cast<float>(own[stretch.first + i])));
        const Float8Scale scale = Float8Scale::of(largest);
        for (std::int64_t i = stretch.first; i < stretch.first + stretch.count; ++i) {
          const auto value = static_cast<float>(own[i]);
          ASSERT_EQ(again[static_cast<std::size_t>(i)], stretch.has_codes() ? scale.rounded(value) : value);
        }
      }
      // In pieces, too, as it is saved.
      for (const std::int64_t piece : {std::int64_t{1}, std::int64_t{100}, part_elements}) {
        for (std::int64_t first = 0; first < part_elements; first += 97 * piece) {
          std::vector<float> values(static_cast<std::size_t>(std::min(piece, part_elements - first)));
          read_packed(packing, part, form, first, values);
          for (std::size_t i = 0; i < values.size(); ++i)
            ASSERT_EQ(values[i], static_cast<float>(again[static_cast<std::size_t>(first) + i]));
        }
      }
    }
    EXPECT_EQ(in_stretches, block.elements);
  }
}

/// Each begins where a device may load 16 bytes at once, and has whole runs of codes.
TEST(Packing, IsAlignedOnRanksThatShareLayersToo) {
  const Model model =
      split_model(build_model(test::tiny_llama_to_split(), {.rounding = Rounding::e4m3}), tensor_split(2, 1));
  const Unit& block = model.units[1];
  for (const std::int64_t parts : {1, 3}) {
    const Packing packing = packing_of(model, block, Flat::trained, {},
                                       align_up((block.elements + parts - 1) / parts, 64), parts);
    ASSERT_TRUE(packing);
    for (const std::vector<PackedStretch>& part : packing.parts) {
      for (const PackedStretch& stretch : part) {
        EXPECT_EQ(stretch.at % kPackedAlignment, 0);
        EXPECT_EQ(stretch.first * size_of(DType::bf16) % 16, 0);
        if (stretch.has_codes()) {
          EXPECT_EQ(stretch.count % kCodesAtOnce, 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata
