// The packer against a search of all buffers that were placed before.
#include "engine/plan/program/packer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace strata {
namespace {

struct Placed {
  Bytes bytes, offset;
  Lifetime live;
};

bool overlap(const Lifetime& a, const Lifetime& b) {
  constexpr std::int32_t kEnd = 1000;
  bool found = false;
  a.for_each_stretch(kEnd, [&](std::int32_t first, std::int32_t last) {
    b.for_each_stretch(kEnd,
                       [&](std::int32_t from, std::int32_t to) { found |= first <= to && from <= last; });
  });
  return found;
}

/// The lowest offset from `start` on at which nothing that lives at some time of `live` is in the way.
Bytes searched_place(std::vector<Placed> placed, Bytes start, Bytes bytes, const Lifetime& live) {
  std::ranges::sort(placed, {}, &Placed::offset);
  Bytes offset = start;
  for (const Placed& other : placed) {
    if (overlap(other.live, live) && other.offset < offset + bytes)
      offset = std::max(offset, other.offset + other.bytes);
  }
  return offset;
}

struct Request {
  Bytes bytes;
  Lifetime live;
};
using MakeLifetime = std::function<Lifetime(std::mt19937&)>;

std::int32_t below(std::mt19937& random, std::int32_t limit) {
  return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(limit));
}

/// Buffers of a few sizes, as a program of equal units has them, or of many.
std::vector<Request> make_requests(std::mt19937& random, std::int32_t sizes, const MakeLifetime& lifetime) {
  std::vector<Request> requests;
  for (int i = 0; i < 200; ++i)
    requests.push_back({kBufferAlignment * (1 + below(random, sizes)), lifetime(random)});
  return requests;
}

void expect_the_searched_places(const std::vector<Request>& requests) {
  constexpr Bytes kStart = 3 * kBufferAlignment;
  std::vector<Lifetime> lifetimes;
  for (const Request& request : requests) lifetimes.push_back(request.live);
  Packer packer(lifetimes, kStart);
  std::vector<Placed> placed;
  for (const auto& [bytes, live] : requests) {
    const Bytes expected = searched_place(placed, kStart, bytes, live);
    ASSERT_EQ(packer.place(bytes, live), expected) << "buffer " << placed.size();
    placed.push_back({bytes, expected, live});
  }
  for (std::size_t a = 0; a < placed.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const bool apart = placed[a].offset + placed[a].bytes <= placed[b].offset ||
                         placed[b].offset + placed[b].bytes <= placed[a].offset;
      ASSERT_TRUE(apart || !overlap(placed[a].live, placed[b].live)) << a << " and " << b;
    }
  }
}

/// Uses that follow one another at once, values that wait for the backward pass, and anything.
const std::vector<MakeLifetime> kLifetimes = {[](std::mt19937& random) {
                                                const std::int32_t first = below(random, 300);
                                                return Lifetime{first, first + below(random, 3)};
                                              },
                                              [](std::mt19937& random) {
                                                const std::int32_t first = below(random, 140);
                                                return Lifetime{first, 300 - first - below(random, 4)};
                                              },
                                              [](std::mt19937& random) {
                                                const std::int32_t first = below(random, 300);
                                                return Lifetime{first, first + below(random, 300 - first)};
                                              },
                                              [](std::mt19937& random) {
                                                const std::int32_t first = 100 * below(random, 3);
                                                return Lifetime{first, first + below(random, 250)};
                                              },
                                              [](std::mt19937& random) {  // some go round
                                                return Lifetime{below(random, 300), below(random, 300)};
                                              }};

TEST(Packer, GivesEachBufferThePlaceThatASearchOfAllBuffersFinds) {
  std::mt19937 random(7);
  for (const MakeLifetime& lifetime : kLifetimes) {
    for (const std::int32_t sizes : {1, 3, 1000}) {
      for (const bool largest_first : {true, false}) {
        for (int round = 0; round < 5; ++round) {
          std::vector<Request> requests = make_requests(random, sizes, lifetime);
          if (largest_first) std::ranges::stable_sort(requests, std::greater<>(), &Request::bytes);
          expect_the_searched_places(requests);
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

TEST(Packer, LetsBuffersThatFollowOneAnotherSharePlaces) {
  Packer packer({{0, 3}, {4, 5}, {5, 9}}, 0);
  EXPECT_EQ(packer.place(8192, {0, 3}), 0);
  EXPECT_EQ(packer.place(4096, {4, 5}), 0);
  EXPECT_EQ(packer.place(4096, {5, 9}), 4096);
}

}  // namespace
}  // namespace strata
