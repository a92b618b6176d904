// What every communicator does, whatever its ranks are. Each result is compared with a plain computation, bit
// by bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <thread>

#include "collectives/sent_bytes.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/values.h"
#include "tests/support/sanitizers.h"

namespace strata::test {
namespace {

class Conformance : public ::testing::TestWithParam<int> {
 protected:
  void run(const std::function<void(Communicator&)>& body) { make_ranks(GetParam())->run(body); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Conformance, ::testing::ValuesIn(rank_counts()),
                         ::testing::PrintToStringParamName());

/// All operations, but for large data: what is large about it does not depend on them.
std::vector<ReduceOp> ops_for(std::size_t count) {
  if (count > 10'000) return {ReduceOp::sum};
  return {kOps.begin(), kOps.end()};
}

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}
std::size_t ranks_of(const Communicator& group) {
  return index(group.size());
}

/// body(T(), element, count) for every element and count.
template <class Elements, class Body>
void for_each_shape(const Elements& elements, const Body& body) {
  for (const Element element : elements)
    for (const std::size_t count : kCounts)
      with_element(element, [&](auto zero) { body(zero, element, count); });
}

// Invariant of ranks (Conformance.*): Collectives have one result. A collective gives the bits of a plain
// fold in the order of ranks, on all ranks, over threads and over MPI.
TEST_P(Conformance, RanksAreNumbered) {
  run([&](Communicator& group) {
    EXPECT_EQ(group.size(), GetParam());
    EXPECT_GE(group.rank(), 0);
    EXPECT_LT(group.rank(), group.size());
    EXPECT_EQ(group.failure(), std::nullopt);
  });
}

TEST_P(Conformance, AllGatherConcatenatesWhatRanksSend) {
  run([](Communicator& group) {
    for_each_shape(kElements, [&]<class T>(T, Element element, std::size_t count) {
      std::vector<T> expected;
      for (int r = 0; r < group.size(); ++r) {
        const std::vector<T> part = values_of<T>(r, 0, count);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      const std::vector<T> own = values_of<T>(group.rank(), 0, count);
      std::vector<T> received(expected.size());
      group.all_gather(own.data(), received.data(), count, element);
      EXPECT_TRUE(same_bits(received, expected));

      const std::size_t place = index(group.rank()) * count;
      std::vector<T> in_place = placed(own, place, expected.size());
      group.all_gather(in_place.data() + place, in_place.data(), count, element);
      EXPECT_TRUE(same_bits(in_place, expected)) << "in place";
    });
  });
}

TEST_P(Conformance, ReduceScatterFoldsThePartOfEachRankInTheOrderOfRanks) {
  run([](Communicator& group) {
    for_each_shape(kReduced, [&]<class T>(T, Element element, std::size_t count) {
      const std::size_t place = index(group.rank()) * count;
      for (const ReduceOp op : ops_for(count)) {
        std::vector<T> sent = values_of<T>(group.rank(), 0, ranks_of(group) * count);
        std::vector<T> received(count);
        group.reduce_scatter(sent.data(), received.data(), count, element, op);
        EXPECT_TRUE(is_fold(received, group.size(), place, op));
        EXPECT_TRUE(same_bits(sent, values_of<T>(group.rank(), 0, sent.size())))
            << "what was sent has changed";

        group.reduce_scatter(sent.data(), sent.data() + place, count, element, op);
        const auto from = sent.begin() + static_cast<std::ptrdiff_t>(place);
        const std::vector<T> in_place(from, from + static_cast<std::ptrdiff_t>(count));
        EXPECT_TRUE(is_fold(in_place, group.size(), place, op)) << "in place";
      }
    });
  });
}

TEST_P(Conformance, AllReduceGivesAllRanksTheFoldInTheOrderOfRanks) {
  run([](Communicator& group) {
    for_each_shape(kReduced, [&]<class T>(T, Element element, std::size_t count) {
      for (const ReduceOp op : ops_for(count)) {
        std::vector<T> sent = values_of<T>(group.rank(), 0, count);
        std::vector<T> received(count);
        group.all_reduce(sent.data(), received.data(), count, element, op);
        EXPECT_TRUE(is_fold(received, group.size(), 0, op));
        group.all_reduce(sent.data(), sent.data(), count, element, op);
        EXPECT_TRUE(is_fold(sent, group.size(), 0, op)) << "in place";
      }
    });
  });
}

TEST_P(Conformance, BroadcastGivesAllWhatTheRootHas) {
  run([](Communicator& group) {
    for_each_shape(kElements, [&]<class T>(T, Element element, std::size_t count) {
      for (int root = 0; root < group.size(); root += 3) {
        std::vector<T> data(count);
        if (group.rank() == root) data = values_of<T>(root, 0, count);
        group.broadcast(data.data(), count, element, root);
        EXPECT_TRUE(same_bits(data, values_of<T>(root, 0, count))) << "from " << root;
      }
    });
  });
}

TEST_P(Conformance, AllToAllTransposesTheParts) {
  run([](Communicator& group) {
    for_each_shape(kElements, [&]<class T>(T, Element element, std::size_t count) {
      const std::vector<T> sent = values_of<T>(group.rank(), 0, ranks_of(group) * count);
      std::vector<T> expected;
      for (int r = 0; r < group.size(); ++r) {
        const std::vector<T> part = values_of<T>(r, index(group.rank()) * count, count);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      std::vector<T> received(expected.size());
      group.all_to_all(sent.data(), received.data(), count, element);
      EXPECT_TRUE(same_bits(received, expected));
    });
  });
}

TEST_P(Conformance, SpecialValuesSurviveReductions) {
  run([](Communicator& group) {
    const bool last = group.rank() + 1 == group.size();
    const float infinity = std::numeric_limits<float>::infinity(),
                nan = std::numeric_limits<float>::quiet_NaN();
    for (const ReduceOp op : kOps) {
      std::vector<float> values(100, last ? infinity : 1.0F);
      values[1] = last ? nan : 1.0F;
      values[2] = group.rank() == 0 ? nan : 1.0F;
      group.all_reduce(values.data(), values.data(), values.size(), Element::fp32, op);
      if (op != ReduceOp::sum && !folds_in_order()) continue;
      const bool finite = op == ReduceOp::min && group.size() > 1;
      EXPECT_EQ(values[0], finite ? 1.0F : infinity);
      EXPECT_TRUE(std::isnan(values[1]));
      EXPECT_TRUE(std::isnan(values[2]));
    }
  });
}

TEST_P(Conformance, MessagesOfAPairArriveInTheirOrder) {
  run([](Communicator& group) {
    constexpr int kMessages = 20;
    // Along the ranks, so that no rank waits for one that waits for it.
    for (int from = 0; from + 1 < group.size(); ++from) {
      for (int i = 0; i < kMessages; ++i) {
        std::vector<float> data = values_of<float>(i, 0, index(i) * 1000);
        if (group.rank() == from) group.send(data.data(), data.size(), Element::fp32, from + 1);
        if (group.rank() != from + 1) continue;
        std::vector<float> received(data.size());
        group.receive(received.data(), received.size(), Element::fp32, from);
        EXPECT_TRUE(same_bits(received, data)) << "message " << i;
      }
    }
  });
}

TEST_P(Conformance, MessagesOfAGroupDoNotWaitForEachOther) {
  run([](Communicator& group) {
    constexpr std::size_t kCount = 70'001;
    // Everybody with everybody and with itself, twice, receiving in another order than that of sending.
    std::vector<std::vector<float>> received(2 * ranks_of(group), std::vector<float>(kCount));
    const std::vector<float> first = values_of<float>(group.rank(), 0, kCount),
                             second = values_of<float>(group.rank(), 1, kCount);
    group.begin_group();
    for (int r = group.size() - 1; r >= 0; --r) {
      group.receive(received[2 * index(r)].data(), kCount, Element::fp32, r);
      group.receive(received[2 * index(r) + 1].data(), kCount, Element::fp32, r);
    }
    for (int r = 0; r < group.size(); ++r) group.send(first.data(), kCount, Element::fp32, r);
    for (int r = 0; r < group.size(); ++r) group.send(second.data(), kCount, Element::fp32, r);
    group.end_group();
    for (int r = 0; r < group.size(); ++r) {
      EXPECT_TRUE(same_bits(received[2 * index(r)], values_of<float>(r, 0, kCount)));
      EXPECT_TRUE(same_bits(received[2 * index(r) + 1], values_of<float>(r, 1, kCount)));
    }
  });
}

TEST_P(Conformance, AGroupTakesMessagesInAnyOrder) {
  if (GetParam() < 3) return;
  run([](Communicator& group) {
    float from1 = 0, from2 = 0, token = 1;
    if (group.rank() == 0) {  // names 2 first, which sends last
      group.begin_group();
      group.receive(&from2, 1, Element::fp32, 2);
      group.receive(&from1, 1, Element::fp32, 1);
      group.end_group();
      EXPECT_EQ(from1 + from2, 2);
    } else if (group.rank() == 1) {
      group.send(&token, 1, Element::fp32, 0);
      group.send(&token, 1, Element::fp32, 2);
    } else if (group.rank() == 2) {
      group.receive(&from1, 1, Element::fp32, 1);
      group.send(&token, 1, Element::fp32, 0);
    }
  });
}

/// What this rank's `call` sends to others, by the communicator's own count.
template <class Call>
std::size_t sent_by(const Communicator& group, const Call& call) {
  const std::size_t before = group.sent_bytes();
  call();
  return group.sent_bytes() - before;
}

// Invariant: Ranks hold and send what the ZeRO formulas give.
TEST_P(Conformance, EveryRankSendsWhatIsPlanned) {
  run([](Communicator& group) {
    const std::size_t ranks = ranks_of(group);
    for_each_shape(kElements, [&]<class T>(T, Element element, std::size_t count) {
      std::vector<T> part(count), whole(ranks * count), other(ranks * count);
      const std::size_t in_parts = sent_in_parts(count * sizeof(T), ranks);
      const auto gather = [&] { group.all_gather(part.data(), whole.data(), count, element); };
      EXPECT_EQ(sent_by(group, gather), in_parts) << count;
      const auto transpose = [&] { group.all_to_all(whole.data(), other.data(), count, element); };
      EXPECT_EQ(sent_by(group, transpose), in_parts) << count;
      if (element == Element::byte) return;
      const auto scatter = [&] { group.reduce_scatter(whole.data(), part.data(), count, element); };
      EXPECT_EQ(sent_by(group, scatter), in_parts) << count;
      const auto sum = [&] { group.all_reduce(part.data(), part.data(), count, element); };
      EXPECT_EQ(sent_by(group, sum), sent_in_sum(count, sizeof(T), ranks)) << count;
    });
  });
}

TEST_P(Conformance, BroadcastsReachEachOtherRankOnceWhoeverPassesThemOn) {
  run([](Communicator& group) {
    for (const std::size_t count : kCounts) {
      std::vector<float> data(count);
      const auto broadcast = [&] { group.broadcast(data.data(), count, Element::fp32, group.size() - 1); };
      const auto sent = static_cast<double>(sent_by(group, broadcast));
      double all = 0;
      group.all_reduce(&sent, &all, 1, Element::fp64);
      EXPECT_EQ(all, static_cast<double>(sent_in_parts(count * sizeof(float), ranks_of(group))));
    }
  });
}

TEST_P(Conformance, MessagesToOtherRanksAreSent) {
  run([](Communicator& group) {
    constexpr std::size_t kCount = 1001;
    const std::vector<float> data(kCount);
    std::vector<std::vector<float>> received(ranks_of(group), data);
    const auto messages = [&] {  // also to itself
      group.begin_group();
      for (int r = 0; r < group.size(); ++r) {
        group.send(data.data(), kCount, Element::fp32, r);
        group.receive(received[index(r)].data(), kCount, Element::fp32, r);
      }
      group.end_group();
    };
    EXPECT_EQ(sent_by(group, messages), (ranks_of(group) - 1) * kCount * sizeof(float));
  });
}

TEST_P(Conformance, SplitMakesGroupsByColorInTheOrderOfKeys) {
  run([](Communicator& group) {
    const int color = group.rank() % 3 == 2 ? -1 : group.rank() % 3;
    const std::unique_ptr<Communicator> part = group.split(color, -group.rank());
    ASSERT_EQ(part == nullptr, color < 0);
    if (!part) return;
    std::vector<std::int32_t> members;
    for (int r = group.size() - 1; r >= 0; --r)
      if (r % 3 == color) members.push_back(r);
    ASSERT_EQ(index(part->size()), members.size());
    EXPECT_EQ(members[index(part->rank())], group.rank());
    const std::int32_t self = group.rank();
    std::vector<std::int32_t> gathered(members.size());
    part->all_gather(&self, gathered.data(), sizeof self, Element::byte);
    EXPECT_EQ(gathered, members);
  });
}

TEST_P(Conformance, EqualKeysKeepTheOrderOfRanks) {
  run([](Communicator& group) {
    const std::unique_ptr<Communicator> copy = group.split(0, 5);
    EXPECT_EQ(copy->rank(), group.rank());
    EXPECT_EQ(copy->size(), group.size());
  });
}

TEST_P(Conformance, CopiesAreIndependentOfTheirBeginning) {
  run([](Communicator& group) {
    std::unique_ptr<Communicator> copy = group.split(0, group.rank());
    std::unique_ptr<Communicator> copy_of_copy = copy->split(0, group.rank());
    copy.reset();
    const float own = value_at<float>(group.rank(), 0);
    float sum = 0;
    copy_of_copy->all_reduce(&own, &sum, 1, Element::fp32);
    EXPECT_TRUE(is_fold<float>({sum}, group.size(), 0, ReduceOp::sum));
  });
}

TEST_P(Conformance, DifferentCommunicatorsWorkAtOnceInDifferentThreads) {
  run([](Communicator& group) {
    constexpr int kThreads = 3, kRounds = 30;
    std::vector<std::unique_ptr<Communicator>> copies;
    for (int t = 0; t < kThreads; ++t) copies.push_back(group.split(0, group.rank()));
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&copy = *copies[index(t)], t] {
        for (int round = 0; round < kRounds; ++round) {
          const std::size_t count = index(1 + 37 * round * (t + 1)), first = index(t);
          std::vector<float> values = values_of<float>(copy.rank(), first, count);
          copy.all_reduce(values.data(), values.data(), count, Element::fp32);
          EXPECT_TRUE(is_fold(values, copy.size(), first, ReduceOp::sum));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_P(Conformance, SplitsOfDifferentCommunicatorsMayHappenAtOnce) {
  run([](Communicator& group) {
    const std::unique_ptr<Communicator> other = group.split(0, group.rank());
    const auto split_often = [](Communicator& parent, std::size_t first) {
      for (std::size_t round = 0; round < 10; ++round) {
        const std::unique_ptr<Communicator> copy = parent.split(0, parent.rank());
        float value = value_at<float>(parent.rank(), first + round);
        copy->all_reduce(&value, &value, 1, Element::fp32);
        EXPECT_TRUE(is_fold<float>({value}, parent.size(), first + round, ReduceOp::sum));
      }
    };
    std::thread thread([&] { split_often(*other, 1000); });
    split_often(group, 0);
    thread.join();
  });
}

struct Freed {
  void operator()(void* data) const { std::free(data); }
};
/// Zeros that take no memory before they are written.
using LargeBytes = std::unique_ptr<std::uint8_t, Freed>;
LargeBytes large_bytes(std::size_t count) {
  return LargeBytes(static_cast<std::uint8_t*>(std::calloc(count, 1)));
}

TEST_P(Conformance, BytesBeyond31BitsAreCounted) {
  if (kShadowedMemory) GTEST_SKIP() << "sanitizers shadow several times the memory";
  if (GetParam() != 2) return;
  run([](Communicator& group) {
    constexpr std::size_t kCount = (std::size_t{1} << 30) + 12'345;
    constexpr std::size_t kPlaces[] = {0, kCount / 2, (std::size_t{1} << 30) - 1, kCount - 1};
    const LargeBytes data = large_bytes(2 * kCount);
    for (const std::size_t place : kPlaces)
      data.get()[index(group.rank()) * kCount + place] = value_at<std::uint8_t>(1 + group.rank(), place);
    group.all_gather(data.get() + index(group.rank()) * kCount, data.get(), kCount, Element::byte);
    for (int r = 0; r < 2; ++r)
      for (const std::size_t place : kPlaces)
        EXPECT_EQ(data.get()[index(r) * kCount + place], value_at<std::uint8_t>(1 + r, place))
            << r << " " << place;
  });
}

TEST_P(Conformance, MessagesBeyond30BitsArriveWhole) {
  if (kShadowedMemory) GTEST_SKIP() << "sanitizers shadow several times the memory";
  if (GetParam() != 2) return;
  run([](Communicator& group) {
    constexpr std::size_t kCount = (std::size_t{1} << 30) + 12'345;
    const LargeBytes data = large_bytes(kCount);
    if (group.rank() == 0) {
      data.get()[kCount - 1] = 17;
      group.send(data.get(), kCount, Element::byte, 1);
    } else {
      group.receive(data.get(), kCount, Element::byte, 0);
      EXPECT_EQ(data.get()[kCount - 1], 17);
    }
  });
}

}  // namespace
}  // namespace strata::test
