// What a template that is wrong, not supported or hostile is told: one sentence with the line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/input/chat/chat_template.h"

namespace strata::chat {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string told(const std::string& source, const ordered_json& messages = ordered_json::array(),
                 const Limits& limits = {}) {
  RenderOptions options;
  options.limits = limits;
  try {
    ChatTemplate::parse(source, "t").render(messages, options);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(Template, NamesTheLineOfWhatIsNoTemplate) {
  EXPECT_EQ(told("\n{{ 1 "), "t: line 2: this tag has no end: '}}' is missing");
  EXPECT_EQ(told("{# a"), "t: line 1: this comment has no end: '#}' is missing");
  EXPECT_EQ(told("{% raw %}"), "t: line 1: '{% raw %}' has no end: '{% endraw %}' is missing");
  EXPECT_EQ(told("a\n\n{% if x %}\n"),
            "t: line 3: the template ends where '{% endif %}' is expected, for what begins in line 3");
  EXPECT_EQ(told("{% endif %}"), "t: line 1: the tag 'endif' closes nothing here");
  EXPECT_EQ(told("{% for x in y %}{% endif %}"), "t: line 1: the tag 'endif' closes nothing here");
  EXPECT_EQ(told("{{ }}"), "t: line 1: '}}' is here where an expression is expected");
  EXPECT_EQ(told("{{ 1 +\n * }}"), "t: line 2: '*' is here where an expression is expected");
  EXPECT_EQ(told("{{ (1] }}"), "t: line 1: ']' is here where ')' is expected");
  EXPECT_EQ(told("{{ ) }}"), "t: line 1: this ')' closes nothing");
  EXPECT_EQ(told("{{ 'a }}"), "t: line 1: this text has no end: its quote is missing");
  EXPECT_EQ(told("{{ a ? b }}"), "t: line 1: '?' is not expected in a tag");
  EXPECT_EQ(told("{{ é }}"), "t: line 1: 'é' is not expected in a tag");
  EXPECT_EQ(told("{{ '\\ud800' }}"), "t: line 1: this escape in a text is no character");
  EXPECT_EQ(told("{% for x %}"), "t: line 1: '%}' is here where 'in' is expected");
  EXPECT_EQ(told("{% set none = 1 %}"), "t: line 1: 'none' cannot be set");
  EXPECT_EQ(told("{% break %}"), "t: line 1: 'break' stands outside of a loop");
  EXPECT_EQ(told("{% for x in y %}{% generation %}{% continue %}"),
            "t: line 1: 'continue' stands outside of a loop");
  EXPECT_EQ(told("{{ f(a=1, 2) }}"), "t: line 1: an argument without a name stands behind one with a name");
  EXPECT_EQ(told("{{ 99999999999999999999 }}"),
            "t: line 1: the number 99999999999999999999 does not fit 64 bits");
}

TEST(Template, NamesWhatIsNotSupported) {
  EXPECT_EQ(told("\n{% include 'x' %}"), "t: line 2: the tag 'include' is not supported");
  EXPECT_EQ(told("{{ x | xmlattr }}"), "t: line 1: the filter 'xmlattr' is not supported");
  EXPECT_EQ(told("{{ x is odder }}"), "t: line 1: the test 'odder' is not supported");
  EXPECT_EQ(told("{{ 'x'.encode() }}"), "t: line 1: the method 'str.encode' is not supported");
  EXPECT_EQ(told("{{ cycler(1) }}"), "t: line 1: the function 'cycler' is not supported");
  EXPECT_EQ(told("{{ 0x1f }}"), "t: line 1: numbers of other bases than ten are not supported");
  EXPECT_EQ(told("{{ '\\N{DASH}' }}"), "t: line 1: escapes with names of characters are not supported");
  EXPECT_EQ(told("{{ range }}"), "t: line 1: printing a 'function' object is not supported");
  EXPECT_EQ(told("{{ '{:>3}'.format(1) }}"), "t: line 1: '{:>3}' in a format is not supported");
  EXPECT_EQ(told("{{ 9223372036854775807 + 1 }}"),
            "t: line 1: the result is too large: whole numbers have 64 bits here");
  EXPECT_THAT(told("{% macro m() %}{% generation %}{% endgeneration %}{% endmacro %}\n{{ m() }}"),
              StartsWith("t: line 1: 'generation' within a macro"));
}

TEST(Template, MayAskForAFilterThatItDoesNotGet) {
  EXPECT_EQ(told("{% if 'xmlattr' is filter %}{{ 1 | xmlattr }}{% endif %}"), "");
  EXPECT_EQ(told("{{ 1 | xmlattr if false else 2 }}"), "");
  EXPECT_EQ(told("{% if true %}\n{{ 1 | xmlattr }}{% endif %}"),
            "t: line 2: the filter 'xmlattr' is not supported");
}

TEST(Rendering, NamesTheLineOfWhatGoesWrong) {
  EXPECT_EQ(told("a\n{{ raise_exception('no ' ~ 'way') }}"), "t: line 2: no way");
  EXPECT_EQ(told("{{ x.y }}"), "t: line 1: 'x' is undefined");
  EXPECT_EQ(told("{% set d = {'a': 1} %}\n{{ d.b.c }}"), "t: line 2: 'dict object' has no attribute 'b'");
  EXPECT_EQ(told("{{ 1 ~\n(2 +\n'x') }}"), "t: line 2: unsupported operand types for +: 'int' and 'str'");
  EXPECT_EQ(told("{% macro m() %}\n{{ 1 / 0 }}{% endmacro %}\n{{ m() }}"), "t: line 2: division by zero");
  EXPECT_EQ(told("{% for x in 5 %}{% endfor %}"), "t: line 1: 'int' object is not iterable");
  EXPECT_EQ(told("{{ 'a' < 1 }}"), "t: line 1: '<' not supported between instances of 'str' and 'int'");
  EXPECT_EQ(told("{{ [].append(1) }}"), "t: line 1: access to attribute 'append' of 'list' object is unsafe");
  EXPECT_EQ(told("{{ ''.__class__.__mro__ }}"),
            "t: line 1: access to attribute '__class__' of 'str' object is unsafe");
  EXPECT_EQ(told("{{ 'x'(1) }}"), "t: line 1: 'str' object is not callable");
  EXPECT_EQ(told("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
            "t: line 1: macro 'm' takes not more than 1 argument(s)");
  EXPECT_EQ(told("{{ 'x' | replace('x') }}"), "t: line 1: 'replace' needs an argument 'new'");
  EXPECT_EQ(told("{% set x.y = 1 %}"), "t: line 1: cannot assign attribute on non-namespace object");
}

TEST(Messages, AreAListOfMaps) {
  EXPECT_EQ(told("", ordered_json::object()), "messages: a list is expected here");
  EXPECT_EQ(told("", {"x"}), "messages[0]: a map is expected here");
  EXPECT_EQ(told("", ordered_json::parse(R"([{"n": 18446744073709551615}])")),
            "t: line 1: 18446744073709551615 is too large: whole numbers have 64 bits here");
}

TEST(HostileTemplate, IsNotNestedWithoutEnd) {
  constexpr int kMany = 100'000;
  const auto many = [](const std::string& text) {
    std::string repeated;
    for (int i = 0; i < kMany; ++i) repeated += text;
    return repeated;
  };
  const std::string sentence = "t: line 1: expressions and tags are nested more than 400 deep";
  EXPECT_EQ(told("{{ " + many("(") + many(")") + " }}"), sentence);
  EXPECT_EQ(told("{{ " + many("[") + many("]") + " }}"), sentence);
  EXPECT_EQ(told("{{ " + many("not ") + "1 }}"), sentence);
  EXPECT_EQ(told("{{ " + many("-") + "1 }}"), sentence);
  EXPECT_EQ(told("{{ 1" + many("+1") + " }}"), sentence);
  EXPECT_EQ(told("{{ 1" + many(" or 1") + " }}"), sentence);
  EXPECT_EQ(told("{{ x" + many(".x") + " }}"), sentence);
  EXPECT_EQ(told("{{ x" + many("|upper") + " }}"), sentence);
  EXPECT_EQ(told("{{ x" + many(" if x") + " }}"), sentence);
  EXPECT_EQ(told(many("{% if 1 %}")), sentence);
  EXPECT_EQ(told("{% set " + many("(") + "x"), "t: line 1: this tag has no end: '%}' is missing");
  EXPECT_EQ(told("{% set " + many("(") + "x" + many(")") + " = 1 %}"), sentence);
}

TEST(HostileTemplate, EndsItsRecursions) {
  const std::string sentence = "expressions and calls are nested more than 400 deep";
  EXPECT_THAT(told("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr(sentence));
  EXPECT_THAT(told("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), HasSubstr(sentence));
  EXPECT_THAT(told("{% set n = namespace() %}{% set n.n = n %}{{ n }}"), HasSubstr(sentence));
  EXPECT_THAT(told("{% set n = namespace(m=[1]) %}{% for i in range(1000) %}{% set n.m = n.m | map('int') "
                   "%}{% endfor %}"
                   "{{ n.m | list }}"),
              HasSubstr(sentence));
  EXPECT_THAT(
      told("{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set n.l = [n.l] %}{% endfor %}"),
      HasSubstr("values are nested more than 100 deep"));
}

std::string told_within(const Limits& limits, const std::string& source) {
  return told(source, ordered_json::array(), limits);
}

TEST(HostileTemplate, EndsItsLoops) {
  const Limits limits{.steps = 1'000'000, .bytes = 10'000'000};
  EXPECT_THAT(
      told_within(limits,
                  "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}"),
      HasSubstr("rendering takes more than 1000000 steps"));
  EXPECT_THAT(
      told_within(limits, "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"),
      HasSubstr("rendering makes more than 10000000 bytes"));
  EXPECT_THAT(told_within(limits, "{% for a in range(99999) %}some hundred characters " +
                                      std::string(100, '.') + "{% endfor %}"),
              HasSubstr("rendering makes more than 10000000 bytes"));
  EXPECT_THAT(
      told_within(
          limits,
          "{% set n = namespace(l=[1]) %}{% for i in range(90) %}{% set n.l = [n.l, n.l] %}{% endfor %}"
          "{{ n.l == [n.l[0], n.l[0], 1] or n.l == n.l[:] }}"),
      HasSubstr("rendering takes more than 1000000 steps"));
  EXPECT_THAT(told("{{ range(100001) }}"), HasSubstr("Range too big"));
  EXPECT_THAT(told("{{ range(-9223372036854775807, 9223372036854775807) }}"), HasSubstr("Range too big"));
}

TEST(HostileTemplate, MakesNoHugeTexts) {
  const Limits limits{.steps = 1'000'000, .bytes = 10'000'000};
  for (const char* source :
       {"{{ 'ab' * 9223372036854775807 }}", "{{ [1, 2] * 9223372036854775807 }}",
        "{{ 'x' | center(9223372036854775807) }}", "{{ 'x'.ljust(9223372036854775807) }}",
        "{{ 'x' ~ 'x'.zfill(9223372036854775807) }}", "{{ 'x' | indent(9223372036854775807) }}",
        "{{ [1] | tojson(indent=9223372036854775807) }}", "{{ [1] | batch(9223372036854775807, 0) | list }}",
        "{{ ('x' * 100000).replace('', 'y' * 100000) }}", "{{ (['x' * 1000] * 1000) | join('y' * 10000) }}",
        "{% set n = namespace(s='x') %}{% for i in range(100) %}{% set n.s = n.s ~ n.s %}{% endfor %}"}) {
    EXPECT_EQ(told_within(limits, source),
              "t: line 1: rendering makes more than 10000000 bytes of text and lists")
        << source;
  }
  EXPECT_THAT(told_within(limits,
                          "{% set n = namespace(l=[1]) %}{% for i in range(90) %}{% set n.l = [n.l, n.l] "
                          "%}{% endfor %}{{ n.l }}"),
              StartsWith("t: line 1: rendering "));
}

TEST(Limits, AreWhatTheOptionsSay) {
  const ChatTemplate chat_template = ChatTemplate::parse("{{ 'x' * 1000 }}", "t");
  RenderOptions options;
  options.limits.bytes = 500;
  EXPECT_THROW(chat_template.render(ordered_json::array(), options), ConfigError);
  EXPECT_EQ(chat_template.render(ordered_json::array()).text.size(), 1000U);
}

}  // namespace
}  // namespace strata::chat
