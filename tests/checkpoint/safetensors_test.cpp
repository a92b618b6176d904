#include "engine/run/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "tests/base/expect_error.h"
#include "tests/base/overwrite.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/support.h"

namespace strata {
namespace {

using nlohmann::json;
using test::expect_error;
using test::overwrite;
using test::quick;
using test::TemporaryFolder;

/// A file by hand: header size, header, data.
void write_by_hand(const std::filesystem::path& path, const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  const std::string prefix(reinterpret_cast<const char*>(&size), sizeof(size));
  overwrite(path, prefix + header + data);
}

json tensor(const char* dtype, json shape, std::int64_t begin, std::int64_t end) {
  return {{"dtype", dtype}, {"shape", std::move(shape)}, {"data_offsets", {begin, end}}};
}

template <typename T>
std::string data_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::vector<float> read(const SafetensorsReader& file, const std::string& name, std::int64_t first,
                        std::size_t count) {
  std::vector<float> out(count);
  file.read(name, first, out);
  return out;
}

TEST(Safetensors, ReadsAFileMadeByHand) {
  const TemporaryFolder folder;
  const json header = {{"__metadata__", {{"format", "pt"}}},
                       {"b", tensor("F32", {2, 3}, 4, 28)},
                       {"a", tensor("BF16", {2}, 0, 4)}};
  write_by_hand(folder / "file", header.dump() + "   ",
                data_of<std::uint16_t>({0x3f80, 0xc000}) + data_of<float>({1, 2, 3, 4, 5, 6}));
  const SafetensorsReader file(folder / "file");
  EXPECT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.at("b").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(read(file, "b", 0, 6), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read(file, "b", 2, 3), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(read(file, "a", 0, 2), (std::vector<float>{1, -2}));
  EXPECT_EQ(read(file, "a", 1, 1), (std::vector<float>{-2}));
}

TEST(Safetensors, ReadsEveryHalfPrecisionValueExactly) {
  const TemporaryFolder folder;
  std::vector<std::uint16_t> halves(0x10000);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  write_by_hand(folder / "file", json{{"x", tensor("F16", {0x10000}, 0, 0x20000)}}.dump(), data_of(halves));
  const std::vector<float> values = read(SafetensorsReader(folder / "file"), "x", 0, halves.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31);
    const int fraction = static_cast<int>(i & 1023);
    float expected = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
    if (exponent == 31) expected = fraction == 0 ? INFINITY : NAN;
    if (i >= 0x8000) expected = -expected;
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(values[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(expected)) << i;
    }
  }
}

TEST(Safetensors, AcceptsDtypesItCannotReadUntilTheyAreRead) {
  const TemporaryFolder folder;
  write_by_hand(folder / "file", json{{"mask", tensor("BOOL", {3}, 0, 3)}}.dump(), "abc");
  const SafetensorsReader file(folder / "file");
  expect_error<ConfigError>([&] { read(file, "mask", 0, 3); }, {"tensor mask is BOOL", "F32, BF16, F16"});
}

TEST(Safetensors, AcceptsEmptyTensorsAndScalars) {
  const TemporaryFolder folder;
  write_by_hand(
      folder / "file",
      json{{"none", tensor("F32", {0, 5}, 0, 0)}, {"one", tensor("F32", json::array(), 0, 4)}}.dump(),
      data_of<float>({7}));
  const SafetensorsReader file(folder / "file");
  EXPECT_EQ(file.at("none").elements, 0);
  EXPECT_EQ(read(file, "one", 0, 1), (std::vector<float>{7}));
}

TEST(Safetensors, RefusesToReadWhatATensorDoesNotHave) {
  const TemporaryFolder folder;
  write_by_hand(folder / "file", json{{"x", tensor("F32", {2}, 0, 8)}}.dump(), data_of<float>({1, 2}));
  const SafetensorsReader file(folder / "file");
  expect_error<ConfigError>([&] { read(file, "x", 1, 2); }, {"tensor x has 2 elements"});
  expect_error<ConfigError>([&] { read(file, "x", -1, 1); }, {"tensor x has 2 elements"});
  expect_error<ConfigError>([&] { read(file, "y", 0, 1); }, {"tensor y is missing"});
}

TEST(Safetensors, ATruncatedFileIsNamedWithExpectedAndActualBytesWhereverItEnds) {
  const TemporaryFolder folder;
  const std::string header = json{{"x", tensor("F32", {2}, 0, 8)}}.dump();
  write_by_hand(folder / "file", header, data_of<float>({1, 2}));
  const std::string whole = read_file(folder / "file");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    overwrite(folder / "file", whole.substr(0, size));
    const std::size_t promised = size < 8 ? 8 : size < 8 + header.size() ? 8 + header.size() : whole.size();
    expect_error<ConfigError>([&] { SafetensorsReader{folder / "file"}; },
                              {(folder / "file").string(), "truncated",
                               std::to_string(promised) + " bytes, it has " + std::to_string(size)});
  }
}

TEST(Safetensors, AHeaderOfAnImpossibleSizeIsNotSafetensors) {
  const TemporaryFolder folder;
  overwrite(folder / "file", "this is a text file, and not a short one");
  expect_error<ConfigError>([&] { SafetensorsReader{folder / "file"}; }, {"not a safetensors file"});
  write_by_hand(folder / "file", "", "");
  expect_error<ConfigError>([&] { SafetensorsReader{folder / "file"}; }, {"a header of 0 bytes"});
}

TEST(Safetensors, AHeaderThatIsDeepOrLargeIsRefusedBeforeItCostsMore) {
  const TemporaryFolder folder;
  write_by_hand(folder / "file", std::string(std::size_t{8} << 20, '['), "");
  expect_error<ConfigError>([&] { SafetensorsReader{folder / "file"}; },
                            {(folder / "file").string() + ", header:1:65: ", "nested more than 64 levels"});
  std::string wide = "{\"x\": [";
  for (int i = 0; i < 2'000'000; ++i) wide += "1,";
  write_by_hand(folder / "file", wide + "1]}", "");
  expect_error<ConfigError>([&] { SafetensorsReader{folder / "file"}; }, {"more than 2000000 values"});
}

struct Malformed {
  const char* name;
  std::string header;
  std::string sentence;
};

class MalformedSafetensors : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedSafetensors, IsRefusedWithTheReason) {
  const TemporaryFolder folder;
  write_by_hand(folder / "file", GetParam().header, std::string(16, 'x'));
  expect_error<ConfigError>([&] { SafetensorsReader{folder / "file"}; },
                            {(folder / "file").string(), GetParam().sentence});
}

std::string with(const json& x) {
  return json{{"x", x}}.dump();
}

INSTANTIATE_TEST_SUITE_P(
    All, MalformedSafetensors,
    ::testing::Values(
        Malformed{"NoJson", "{\"x\":", "header:1:6: this is not valid JSON"},
        Malformed{"Array", "[]", "not a JSON object"},
        Malformed{"NoDescription", R"({"x": 3})", "tensor x has no description"},
        Malformed{"NoDtype", R"({"x": {"shape": [4], "data_offsets": [0, 16]}})", "tensor x has no dtype"},
        Malformed{"NoShape", R"({"x": {"dtype": "F32", "data_offsets": [0, 16]}})",
                  "tensor x has no valid shape"},
        Malformed{"NegativeShape", with(tensor("F32", {-4}, 0, 16)), "no valid shape"},
        Malformed{"NoOffsets", R"({"x": {"dtype": "F32", "shape": [4]}})",
                  "tensor x has no valid data_offsets"},
        Malformed{"BackwardOffsets", with(tensor("F32", {4}, 16, 0)), "no valid data_offsets"},
        Malformed{"UnknownDtype", with(tensor("F3", {4}, 0, 16)), "the unknown dtype F3"},
        Malformed{"WrongSize", with(tensor("F32", {5}, 0, 16)),
                  "16 bytes, which is not what F32 of shape [5] takes"},
        Malformed{"Overflow", with(tensor("F32", {1LL << 40, 1LL << 40}, 0, 16)),
                  "16 bytes, which is not what"},
        Malformed{"BeyondAnyFile", with(tensor("U8", {1}, INT64_MAX - 1, INT64_MAX)),
                  "an offset beyond any file"},
        Malformed{"Overlap", json{{"x", tensor("F32", {4}, 0, 16)}, {"y", tensor("F32", {2}, 8, 16)}}.dump(),
                  "tensor y overlaps another one"},
        Malformed{"Hole", json{{"x", tensor("F32", {1}, 0, 4)}, {"y", tensor("F32", {2}, 8, 16)}}.dump(),
                  "tensor y has a hole before it"},
        Malformed{"TooLong", with(tensor("F32", {2}, 0, 8)), "8 bytes follow the last tensor"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Safetensors, WhatIsWrittenIsReadWithTensorsInAnyPieces) {
  const TemporaryFolder folder;
  const std::vector<TensorToWrite> tensors = {{"b", {2, 3}}, {"a", {5}}};
  SafetensorsWriter writer(quick(), folder / "file", DType::fp32, tensors);
  std::vector<float> values(11);
  std::iota(values.begin(), values.end(), 0.5F);
  writer.write(std::span(values).first(4));
  writer.write(std::span(values).subspan(4));
  writer.finish();
  const SafetensorsReader file(folder / "file");
  EXPECT_EQ(read(file, "b", 0, 6), std::vector<float>(values.begin(), values.begin() + 6));
  EXPECT_EQ(read(file, "a", 0, 5), std::vector<float>(values.begin() + 6, values.end()));
  EXPECT_EQ(file.at("b").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.at("b").offset % 8, 0);
  EXPECT_EQ(writer.bytes(), std::ssize(read_file(folder / "file")));
  EXPECT_EQ(writer.checksum(), hash_text(read_file(folder / "file")));
}

TEST(Safetensors, Bf16IsRoundedToNearestAlsoBeyondTheBuffer) {
  const TemporaryFolder folder;
  constexpr std::int64_t kCount = (1 << 19) + 3;  // more than the writer's and the reader's buffers hold
  SafetensorsWriter writer(quick(), folder / "file", DType::bf16, {{"x", {kCount}}});
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.0F + static_cast<float>(i) * 0x1p-20F;
  writer.write(values);
  writer.finish();
  const std::vector<float> back = read(SafetensorsReader(folder / "file"), "x", 0, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(back[i], static_cast<float>(bfloat16(values[i]))) << i;
  }
}

TEST(Safetensors, NamesMayHoldAnyText) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(quick(), folder / "file", DType::fp32, {{"a \"quoted\" \\ name ✓", {1}}});
  writer.write(std::vector<float>{3});
  writer.finish();
  EXPECT_EQ(read(SafetensorsReader(folder / "file"), "a \"quoted\" \\ name ✓", 0, 1), std::vector<float>{3});
}

}  // namespace
}  // namespace strata
