// A tokenizer.json, and behind a line "--" a text that it encodes.
#include <algorithm>

#include "engine/config/choices.h"
#include "engine/input/text/tokenizer.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

void read_tokenizer(std::string_view input) {
  const text::Tokenizer tokenizer = text::Tokenizer::parse(next_part(input), "tokenizer.json");
  for (const std::string_view text :
       {input, std::string_view("Grüße, 世界! e\xcc\x81 \xf0\x9f\x99\x82\xff  x1 ")}) {
    std::vector<std::int32_t> ids, again;
    tokenizer.encode(text, ids, text::AddSpecial::yes);
    tokenizer.encode(text, again, text::AddSpecial::yes);
    require(ids == again, "a text has the same ids again");
    require(std::ranges::all_of(ids, [&](std::int32_t id) { return 0 <= id && id < tokenizer.end_of_ids(); }),
            "ids are within the vocabulary");
    tokenizer.decode(ids, false);
    tokenizer.decode(ids, true);
  }
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(tokenizer, strata::fuzz::read_tokenizer)
