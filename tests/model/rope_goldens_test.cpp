// Rotary tables are those of transformers for random settings of every type, family and spelling:
// tests/parity/make_rope_goldens.py makes rope_goldens.json.
#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/model/architectures/architecture_rules.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using nlohmann::json;

json goldens() {
  return json::parse(std::ifstream(test::source_folder() / "tests/model/rope_goldens.json"));
}

/// `expected`: at each position, a number for each pair of columns.
void expect_rows(const Matrix& table, const json& expected, const json& positions) {
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto row = expected[i].get<std::vector<double>>();
    ASSERT_EQ(table.columns, std::ssize(row));
    for (std::int64_t index = 0; index < table.columns; ++index)
      EXPECT_NEAR(table.row<float>(positions[i])[index], row[static_cast<std::size_t>(index)], 1e-5)
          << "position " << positions[i] << ", pair " << index;
  }
}

void expect_tables(const std::vector<Rotation>& rotations, const json& golden) {
  const std::int64_t sequence = golden["sequence"];
  ASSERT_EQ(rotations.size(), golden["tables"].size());
  for (std::size_t i = 0; i < rotations.size(); ++i) {
    std::vector<std::byte> memory(static_cast<std::size_t>(2 * rotary_table_bytes(rotations[i], sequence)));
    fill_rotary_tables(rotations[i], sequence, memory);
    const RotaryTables tables = rotary_tables(rotations[i], sequence, memory.data());
    expect_rows(tables.cosine, golden["tables"][i][0], golden["positions"]);
    expect_rows(tables.sine, golden["tables"][i][1], golden["positions"]);
  }
}

TEST(RopeGoldens, TablesAreThoseOfTransformersForRandomSettings) {
  for (const json& golden : goldens()) {
    SCOPED_TRACE(golden["config"].dump());
    ASSERT_FALSE(golden.contains("refused"));
    const Architecture a = parse_architecture(golden["config"], "config.json");
    expect_tables(rules_of(a).rotations(a), golden);
  }
}

TEST(RopeGoldens, AreReadBackFromAnExportsConfig) {
  for (const json& golden : goldens()) {
    const Architecture a = parse_architecture(golden["config"], "config.json");
    EXPECT_EQ(parse_architecture(to_hf_config(a), "config.json"), a) << golden["config"];
  }
}

}  // namespace
}  // namespace strata
