#include "engine/input/text/newer_characters.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace strata::text {
namespace {

constexpr CharacterRange kNewer[] = {
    {0x897, 0x897, "Mn"},     {0x1b4e, 0x1b4f, "P"},    {0x1b7f, 0x1b7f, "P"},    {0x1c89, 0x1c89, "Lu"},
    {0x1c8a, 0x1c8a, "Ll"},   {0x2427, 0x2429, "S"},    {0x2ffc, 0x2fff, "S"},    {0x31e4, 0x31e5, "S"},
    {0x31ef, 0x31ef, "S"},    {0xa7cb, 0xa7cc, "Lu"},   {0xa7cd, 0xa7cd, "Ll"},   {0xa7da, 0xa7da, "Lu"},
    {0xa7db, 0xa7db, "Ll"},   {0xa7dc, 0xa7dc, "Lu"},   {0x105c0, 0x105f3, "Lo"}, {0x10d40, 0x10d49, "Nd"},
    {0x10d4a, 0x10d4d, "Lo"}, {0x10d4e, 0x10d4e, "Lm"}, {0x10d4f, 0x10d4f, "Lo"}, {0x10d50, 0x10d65, "Lu"},
    {0x10d69, 0x10d6d, "Mn"}, {0x10d6e, 0x10d6e, "P"},  {0x10d6f, 0x10d6f, "Lm"}, {0x10d70, 0x10d85, "Ll"},
    {0x10d8e, 0x10d8f, "S"},  {0x10ec2, 0x10ec4, "Lo"}, {0x10efc, 0x10efc, "Mn"}, {0x11380, 0x11389, "Lo"},
    {0x1138b, 0x1138b, "Lo"}, {0x1138e, 0x1138e, "Lo"}, {0x11390, 0x113b5, "Lo"}, {0x113b7, 0x113b7, "Lo"},
    {0x113b8, 0x113ba, "Mc"}, {0x113bb, 0x113c0, "Mn"}, {0x113c2, 0x113c2, "Mc"}, {0x113c5, 0x113c5, "Mc"},
    {0x113c7, 0x113ca, "Mc"}, {0x113cc, 0x113cd, "Mc"}, {0x113ce, 0x113ce, "Mn"}, {0x113cf, 0x113cf, "Mc"},
    {0x113d0, 0x113d0, "Mn"}, {0x113d1, 0x113d1, "Lo"}, {0x113d2, 0x113d2, "Mn"}, {0x113d3, 0x113d3, "Lo"},
    {0x113d4, 0x113d5, "P"},  {0x113d7, 0x113d8, "P"},  {0x113e1, 0x113e2, "Mn"}, {0x116d0, 0x116e3, "Nd"},
    {0x1171e, 0x1171e, "Mc"}, {0x11bc0, 0x11be0, "Lo"}, {0x11be1, 0x11be1, "P"},  {0x11bf0, 0x11bf9, "Nd"},
    {0x11f5a, 0x11f5a, "Mn"}, {0x13460, 0x143fa, "Lo"}, {0x16100, 0x1611d, "Lo"}, {0x1611e, 0x16129, "Mn"},
    {0x1612a, 0x1612c, "Mc"}, {0x1612d, 0x1612f, "Mn"}, {0x16130, 0x16139, "Nd"}, {0x16d40, 0x16d42, "Lm"},
    {0x16d43, 0x16d6a, "Lo"}, {0x16d6b, 0x16d6c, "Lm"}, {0x16d6d, 0x16d6f, "P"},  {0x16d70, 0x16d79, "Nd"},
    {0x18cff, 0x18cff, "Lo"}, {0x1cc00, 0x1ccef, "S"},  {0x1ccf0, 0x1ccf9, "Nd"}, {0x1cd00, 0x1ceb3, "S"},
    {0x1e5d0, 0x1e5ed, "Lo"}, {0x1e5ee, 0x1e5ef, "Mn"}, {0x1e5f0, 0x1e5f0, "Lo"}, {0x1e5f1, 0x1e5fa, "Nd"},
    {0x1e5ff, 0x1e5ff, "P"},  {0x1f8b2, 0x1f8bb, "S"},  {0x1f8c0, 0x1f8c1, "S"},  {0x1fa89, 0x1fa89, "S"},
    {0x1fa8f, 0x1fa8f, "S"},  {0x1fabe, 0x1fabe, "S"},  {0x1fac6, 0x1fac6, "S"},  {0x1fadc, 0x1fadc, "S"},
    {0x1fadf, 0x1fadf, "S"},  {0x1fae9, 0x1fae9, "S"},  {0x1fbcb, 0x1fbef, "S"},  {0x2ebf0, 0x2ee5d, "Lo"}};

// These are of Unicode 17.
constexpr CharacterRange kNewerNumeric[] = {{0x11de0, 0x11de9, "Nd"}, {0x16ff4, 0x16ff6, "Nl"}};

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

std::span<const CharacterRange> newer_characters() {
  return kNewer;
}

bool is_newer_numeric(char32_t c) {
  const CharacterRange* found = find_range<CharacterRange>(kNewer, c);
  return (found != nullptr && found->category == "Nd") ||
         find_range<CharacterRange>(kNewerNumeric, c) != nullptr;
}

bool is_newer_word(char32_t c) {
  const CharacterRange* found = find_range<CharacterRange>(kNewer, c);
  return found != nullptr && std::string_view("LMN").find(found->category.front()) != std::string_view::npos;
}

char32_t newer_lower_case(char32_t c) {
  const LowerCase* found = find_range<LowerCase>(kLowerCase, c);
  return found == nullptr ? c : found->lower + (c - found->first);
}

}  // namespace strata::text
