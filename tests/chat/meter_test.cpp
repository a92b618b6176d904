// What a rendering may take holds for every operation, by the tables of operations.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "engine/input/chat/builtins.h"
#include "engine/input/chat/chat_template.h"
#include "tests/support/allocations.h"

namespace strata::chat {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

/// What a template is told that computes the expression of the text `t`; empty if nothing is wrong.
std::string told(const std::string& expression, const std::string& text, const Limits& limits) {
  const ordered_json messages = {{{"content", text}}};
  RenderOptions options;
  options.limits = limits;
  options.now_seconds = 0;
  const std::string source =
      "{% set t = messages[0].content %}{% if (" + expression + ") is undefined %}{% endif %}";
  try {
    ChatTemplate::parse(source, "t").render(messages, options);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

bool is_limit(const std::string& said) {
  return said.find(" rendering takes more than ") != std::string::npos ||
         said.find(" rendering makes more than ") != std::string::npos;
}

/// Lists of arguments. For each operation one list fits. Some arguments are texts that are as long as the
/// text.
const std::vector<std::string> kArguments = {"",         "t",           "1",
                                             "'a'",      "[t]",         "(t, t)",
                                             "'a', 'b'", "'x', t",      "t, t",
                                             "t, t, 1",  "none, 1",     "'int'",
                                             "'string'", "5, true",     "'a', 'upper'",
                                             "indent=t", "indent=9999", "separators=(t, t)",
                                             "5, t",     "9999999, 'x'"};

/// Every way to call what is in the tables, by its name.
std::vector<std::pair<std::string, std::string>> all_calls() {
  std::vector<std::pair<std::string, std::string>> calls;
  for (const std::string& arguments : kArguments) {
    for (const FilterTable* table :
         {&text_filters(), &value_filters(), &sequence_filters(), &element_filters(), &order_filters()}) {
      for (const auto& [name, filter] : *table) {
        // What is lazy does its work when it is walked over.
        calls.emplace_back(fmt::format("|{}", name), fmt::format("t | {}({}) | string", name, arguments));
        calls.emplace_back(fmt::format("|{}", name), fmt::format("t | {}({}) | list", name, arguments));
      }
    }
    for (const auto& [name, test] : all_tests()) {
      if (std::isalpha(name[0]) != 0)
        calls.emplace_back(fmt::format("is {}", name), fmt::format("t is {}({})", name, arguments));
    }
    for (const TextMethodTable* table :
         {&changing_text_methods(), &splitting_text_methods(), &asking_text_methods()}) {
      for (const auto& [name, method] : *table) {
        if (method != nullptr)
          calls.emplace_back(fmt::format(".{}", name), fmt::format("t.{}({})", name, arguments));
      }
    }
  }
  return calls;
}

const std::vector<std::string> kOperators = {"t[0]",
                                             "t[-1]",
                                             "t[:5]",
                                             "t[5:]",
                                             "t[::2]",
                                             "t[::-1]",
                                             "t + 'a'",
                                             "'a' + t",
                                             "t * 2",
                                             "t ~ 1",
                                             "t % ()",
                                             "t == t ~ ''",
                                             "t != 'a'",
                                             "t < 'b'",
                                             "t in 'a'",
                                             "'b' in t",
                                             "t >= t",
                                             "[t] * 3 == [t, t, t ~ '']",
                                             "'b' not in [t]",
                                             "t in {'a': 1}",
                                             "{'a': t} == {'a': t ~ ''}",
                                             "[t] < [t]",
                                             "'%s' % t",
                                             "'%r' % t",
                                             "'{}'.format(t)",
                                             "'a'.join([t])",
                                             "'a'.startswith(t)",
                                             "'a'.strip(t)",
                                             "'a'.find(t)",
                                             "raise_exception(t)",
                                             "range(t | length)",
                                             "dict([(t, t)])[t ~ 'a']",
                                             "{t: 1}[t ~ '']",
                                             "[t, t] | tojson",
                                             "[t] | string",
                                             "[t, 'b'] | sort",
                                             "[t, 'b'] | max",
                                             "[t, t] | unique | list",
                                             "[t, t] | join"};

TEST(Meter, CountsEachOperationByWhatItReads) {
  constexpr std::int64_t kBytes = 64'000;
  const std::string text(kBytes, 'a');
  const Limits limits{.steps = kBytes / 64};
  for (const std::string& expression : kOperators)
    EXPECT_TRUE(is_limit(told(expression, text, limits))) << expression;

  // They look at what a value is, not at what is in it.
  std::set<std::string> of_types = {"|default", "|d"};
  for (const char* name : {"defined", "undefined", "none", "boolean", "true", "false", "integer", "float",
                           "number", "string", "mapping", "sequence", "iterable", "callable", "escaped"})
    of_types.insert(fmt::format("is {}", name));
  // They are not for texts.
  const std::set<std::string> refused = {"|abs",   "|round",         "|dictsort", "is even",
                                         "is odd", "is divisibleby", "is sameas", "|items"};
  std::set<std::string> counted, known;
  for (const auto& [name, expression] : all_calls()) {
    known.insert(name);
    const std::string said = told(expression, text, limits);
    // A text and a number, or a list, differ.
    const bool differs =
        (name == "is eq" || name == "is equalto" || name == "is ne") && !expression.ends_with("(t)");
    EXPECT_TRUE(!said.empty() || of_types.contains(name) || differs || expression.ends_with("| string"))
        << expression;
    if (is_limit(said)) counted.insert(name);
  }
  for (const std::string& name : known)
    EXPECT_TRUE(counted.contains(name) || of_types.contains(name) || refused.contains(name)) << name;
}

/// What a rendering allocates is at most this often what it may make, and what it reads.
constexpr std::int64_t kMostCopies = 10;

TEST(Meter, CountsEachOperationByWhatItMakes) {
  constexpr std::int64_t kBytes = 40'000;
  const Limits limits{.bytes = 2 * kBytes};
  for (const char* part : {"a", "\n", "é", "\x01", "<{} %s,"}) {
    std::string text;
    while (std::ssize(text) < kBytes) text += part;
    auto calls = all_calls();
    for (const std::string& expression : kOperators) calls.emplace_back(expression, expression);
    for (const auto& [name, expression] : calls) {
      const std::int64_t before = test::allocations_so_far().bytes;
      told(expression, text, limits);
      EXPECT_LE(test::allocations_so_far().bytes - before, kMostCopies * (limits.bytes + kBytes))
          << expression;
    }
  }
}

TEST(Meter, IsNotNeededForSearches) {
  const std::string text = std::string(1'000'000, 'a') + "b";
  for (const char* expression :
       {"('b' * 1000000).strip(t)", "('b' * 1000000) | trim(t)", "t.rfind(t[:500000] ~ 'bb')",
        "t.rsplit(t[:500000] ~ 'bb')", "t.rpartition(t[:500000] ~ 'bb')", "t.count(t[:500000] ~ 'bb')"}) {
    EXPECT_EQ(told(expression, text, {}), "") << expression;
  }
}

TEST(Meter, CountsSearchesForNames) {
  std::string many = "{";
  for (int i = 0; i < 2000; ++i) many += fmt::format("'name{}': 1, ", i);
  many += "}";
  const Limits limits{.steps = 200'000};
  EXPECT_THAT(told("namespace(d=" + many + ")", "", limits), HasSubstr("takes more than 200000 steps"));
  EXPECT_THAT(told("dict(**" + many + ")", "", limits), HasSubstr("takes more than 200000 steps"));
}

}  // namespace
}  // namespace strata::chat
