#include "engine/text/newer_characters.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace strata {
namespace {

struct CharacterRange {
  char32_t first, last;
};

constexpr CharacterRange kNumeric[] = {{0x10d40, 0x10d49}, {0x116d0, 0x116e3}, {0x11bf0, 0x11bf9},
                                       {0x11de0, 0x11de9}, {0x16130, 0x16139}, {0x16d70, 0x16d79},
                                       {0x16ff4, 0x16ff6}, {0x1ccf0, 0x1ccf9}, {0x1e5f1, 0x1e5fa}};

constexpr CharacterRange kWord[] = {
    {0x897, 0x897},     {0x1c89, 0x1c8a},   {0xa7cb, 0xa7cd},   {0xa7da, 0xa7dc},   {0x105c0, 0x105f3},
    {0x10d40, 0x10d65}, {0x10d69, 0x10d6d}, {0x10d6f, 0x10d85}, {0x10ec2, 0x10ec4}, {0x10efc, 0x10efc},
    {0x11380, 0x11389}, {0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x113b5}, {0x113b7, 0x113c0},
    {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113ca}, {0x113cc, 0x113d3}, {0x113e1, 0x113e2},
    {0x116d0, 0x116e3}, {0x11bc0, 0x11be0}, {0x11bf0, 0x11bf9}, {0x11f5a, 0x11f5a}, {0x13460, 0x143fa},
    {0x16100, 0x16139}, {0x16d40, 0x16d6c}, {0x16d70, 0x16d79}, {0x18cff, 0x18cff}, {0x1ccf0, 0x1ccf9},
    {0x1e5d0, 0x1e5fa}, {0x2ebf0, 0x2ee5d}};

struct LowerCase {
  char32_t first, last;  ///< capitals
  char32_t lower;        ///< of the first; the others' follow it
};
constexpr LowerCase kLowerCase[] = {{0x1c89, 0x1c89, 0x1c8a},    {0xa7cb, 0xa7cb, 0x264},
                                    {0xa7cc, 0xa7cc, 0xa7cd},    {0xa7ce, 0xa7ce, 0xa7cf},
                                    {0xa7d2, 0xa7d2, 0xa7d3},    {0xa7d4, 0xa7d4, 0xa7d5},
                                    {0xa7da, 0xa7da, 0xa7db},    {0xa7dc, 0xa7dc, 0x19b},
                                    {0x10d50, 0x10d65, 0x10d70}, {0x16ea0, 0x16eb8, 0x16ebb}};

template <typename Entry>
const Entry* find_range(std::span<const Entry> entries, char32_t c) {
  const auto found = std::ranges::lower_bound(entries, c, {}, &Entry::last);
  return found == entries.end() || c < found->first ? nullptr : &*found;
}

}  // namespace

bool is_newer_numeric(char32_t c) {
  return find_range<CharacterRange>(kNumeric, c) != nullptr;
}

bool is_newer_word(char32_t c) {
  return find_range<CharacterRange>(kWord, c) != nullptr;
}

char32_t newer_lower_case(char32_t c) {
  const LowerCase* found = find_range<LowerCase>(kLowerCase, c);
  return found == nullptr ? c : found->lower + (c - found->first);
}

}  // namespace strata
