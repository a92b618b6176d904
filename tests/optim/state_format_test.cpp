#include "optim/state_format.h"

#include <type_traits>

#include <gtest/gtest.h>

#include "tests/support/state_types.h"

namespace strata {
namespace {

using test::kBf16Moments;
using test::kCodedMoments;
using test::kNoMaster;
using test::kSmallest;
using test::kSmallNone;
using test::kSmallSplit;
using test::kSplit;

constexpr StateFormat kPlain = {};

TEST(StateFormat, CountsBytesOfStateAndOfAnUpdate) {
  EXPECT_EQ(kPlain.state_bytes(DType::bf16, 1), 14);
  EXPECT_EQ(kSplit.state_bytes(DType::bf16, 1), 12);
  EXPECT_EQ(kNoMaster.state_bytes(DType::bf16, 1), 10);
  EXPECT_EQ(kSmallSplit.state_bytes(DType::bf16, 1), 8);
  EXPECT_EQ(kSmallNone.state_bytes(DType::bf16, 1), 6);
  EXPECT_EQ(kPlain.state_bytes(DType::fp32, 1), 12);
  EXPECT_EQ(kPlain.update_bytes(DType::bf16, 1), 28);
  EXPECT_EQ(kSplit.update_bytes(DType::bf16, 1), 26);
  EXPECT_EQ(kBf16Moments.update_bytes(DType::bf16, 1), 20);
  EXPECT_EQ(kNoMaster.update_bytes(DType::bf16, 1), 22);
  EXPECT_EQ(kSmallSplit.update_bytes(DType::bf16, 1), 18);
  EXPECT_EQ(kSmallNone.update_bytes(DType::bf16, 1), 14);
  EXPECT_EQ(kPlain.update_bytes(DType::fp32, 1), 28);
  EXPECT_EQ(kBf16Moments.update_bytes(DType::fp32, 1), 20);
}

TEST(StateFormat, CountsBlocksOfCodes) {
  EXPECT_EQ(kCodedMoments.state_bytes(DType::bf16, 64), 64 * 6 + 2 * 68);
  EXPECT_EQ(kCodedMoments.state_bytes(DType::bf16, 65), 65 * 6 + 2 * 2 * 68);
  EXPECT_EQ(kSmallest.state_bytes(DType::bf16, 640), 640 * 2 + 2 * 680);
  EXPECT_EQ(kSmallest.update_bytes(DType::bf16, 64), 64 * 6 + 4 * 68);
  const StateFormat ademamix = {.moments = MomentFormat::coded, .kept = moments_of(UpdateRule::ademamix)};
  EXPECT_EQ(ademamix.state_bytes(DType::bf16, 64), 64 * 6 + 2 * 68 + 64 * 2) << "the slow mean has 16 bits";
  EXPECT_EQ(kCodedMoments.moment_offset(Moment::exp_avg, 130, 130), 0);
  EXPECT_EQ(kCodedMoments.moment_offset(Moment::exp_avg, 130, 191), 0);
  EXPECT_EQ(kCodedMoments.moment_offset(Moment::exp_avg, 130, 192), 68);
  EXPECT_EQ(kCodedMoments.moment_offset(Moment::ema, 130, 192), 4 * 62);
}

TEST(StateFormat, CountsTheMomentsThatTheRuleKeeps) {
  constexpr Moments kNone = moments_of(UpdateRule::sgd), kOne = moments_of(UpdateRule::sgd_momentum);
  constexpr Moments kTwo = moments_of(UpdateRule::rmsprop_momentum);
  for (const UpdateRule rule : {UpdateRule::lion, UpdateRule::rmsprop, UpdateRule::adagrad})
    EXPECT_EQ((StateFormat{.kept = moments_of(rule)}.state_bytes(DType::bf16, 1)), 10) << name_of(rule);
  EXPECT_EQ((StateFormat{.kept = kTwo}.state_bytes(DType::bf16, 1)), 14);
  EXPECT_EQ((StateFormat{.kept = kNone}.state_bytes(DType::bf16, 1)), 6);
  EXPECT_EQ((StateFormat{.master = MasterFormat::split, .kept = kNone}.state_bytes(DType::bf16, 1)), 4);
  EXPECT_EQ((StateFormat{.master = MasterFormat::none, .kept = kNone}.state_bytes(DType::bf16, 1)), 2);
  EXPECT_EQ((StateFormat{.kept = kNone}.state_bytes(DType::fp32, 1)), 4);
  EXPECT_EQ((StateFormat{.kept = kOne}.state_bytes(DType::bf16, 1)), 10);
  EXPECT_EQ(
      (StateFormat{.master = MasterFormat::split, .moments = MomentFormat::bf16, .kept = kOne}.state_bytes(
          DType::bf16, 1)),
      6);
  EXPECT_EQ((StateFormat{.kept = kNone}.update_bytes(DType::bf16, 1)), 12);
  EXPECT_EQ((StateFormat{.kept = kOne}.update_bytes(DType::bf16, 1)), 20);
  EXPECT_EQ((StateFormat{.kept = kNone}.update_bytes(DType::fp32, 1)), 12);
}

TEST(StateFormat, OfAnFp32RunHasNoMasterBesideTheParameter) {
  EXPECT_EQ(kPlain.master_bytes(DType::fp32), 0);
  EXPECT_EQ(kPlain.master_bytes(DType::fp16), 4);
}

TEST(StateFormat, NamesTypesOfTheSizesThatItCounts) {
  for (const StateFormat& format : {kPlain, kSplit, kNoMaster, kBf16Moments, kSmallSplit, kSmallNone}) {
    with_state_types(DType::bf16, format,
                     [&]<typename Precision, typename Master, typename Stored>(Precision, Master, Stored) {
                       EXPECT_TRUE((std::is_same_v<Precision, bfloat16>));
                       const bool is_own = format.is_own_master(DType::bf16);
                       const Bytes own = sizeof(bfloat16);
                       EXPECT_EQ(static_cast<Bytes>(sizeof(Master)),
                                 is_own ? own : format.master_bytes(DType::bf16));
                       EXPECT_EQ(static_cast<Bytes>(sizeof(Stored)), format.moment_bytes(Moment::exp_avg, 1));
                     });
  }
}

}  // namespace
}  // namespace strata
