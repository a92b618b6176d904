// Records of all forms as what is trained on.
#include "engine/input/data/record.h"

#include <gmock/gmock.h>

#include "base/json_text.h"
#include "tests/data/corpus.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Record record_of(const std::string& json, const RecordFields& fields = RecordFields(),
                 bool has_template = true) {
  return read_record(parse_ordered_json(json, "json"), fields, has_template);
}

std::string messages_of(const std::string& json, const RecordFields& fields = RecordFields()) {
  return record_of(json, fields).messages.dump();
}

std::string refused(const std::string& json, const RecordFields& fields = RecordFields()) {
  return refusal([&] { record_of(json, fields); });
}

const std::string kHello = R"([{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}])";

TEST(Records, OfShareGptAreConversations) {
  const std::string turns = R"([{"from":"human","value":"hi"},{"from":"gpt","value":"hello"}])";
  EXPECT_EQ(messages_of(R"({"conversations":)" + turns + "}"), kHello);
  EXPECT_EQ(messages_of(R"({"messages":)" + turns + "}"), kHello);
  EXPECT_EQ(messages_of(R"({"conversations":)" + kHello + "}"), kHello);
  EXPECT_EQ(record_of(R"({"conversations":)" + turns + "}").kind, DocumentKind::sharegpt);
  const std::string all = messages_of(
      R"({"conversations":[{"from":"system","value":"s"},{"from":"tool","value":"t"},{"from":"observation","value":"o"}]})");
  EXPECT_EQ(
      all,
      R"([{"role":"system","content":"s"},{"role":"tool","content":"t"},{"role":"tool","content":"o"}])");
  EXPECT_THAT(refused(R"({"conversations":[{"from":"function_call","value":"f"}]})"),
              HasSubstr(R"(conversations[0]: "from" is "function_call")"));
  EXPECT_THAT(refused(R"({"conversations":[{"from":"gpt"}]})"), HasSubstr("\"value\" is missing"));
}

TEST(Records, OfAlpacaAreConversationsWhereThereIsATemplate) {
  const std::string with = R"({"instruction":"do","input":"this","output":"done"})",
                    without = R"({"instruction":"do","input":"","output":"done"})";
  EXPECT_EQ(messages_of(with),
            R"([{"role":"user","content":"do\nthis"},{"role":"assistant","content":"done"}])");
  EXPECT_EQ(messages_of(without),
            R"([{"role":"user","content":"do"},{"role":"assistant","content":"done"}])");
  const Record plain = record_of(with, RecordFields(), false);
  EXPECT_THAT(plain.prompt, HasSubstr("### Instruction:\ndo\n\n### Input:\nthis\n\n### Response:"));
  EXPECT_EQ(plain.completion, "done");
  EXPECT_THAT(record_of(without, RecordFields(), false).prompt,
              HasSubstr("### Instruction:\ndo\n\n### Response:"));
  EXPECT_THAT(refused(R"({"instruction":"do","output":"done","history":[["a","b"]]})"),
              HasSubstr("\"history\""));
}

TEST(Records, OfTrlLearnWhatTheCompletionSays) {
  const Record record = record_of(
      R"({"prompt":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}],
          "completion":[{"role":"assistant","content":"d"}]})");
  EXPECT_EQ(record.messages.size(), 4U);
  EXPECT_THAT(record.are_learned, ElementsAre(false, true));
  EXPECT_THAT(refused(R"({"prompt":[],"completion":"d"})"), HasSubstr("\"prompt\" is not a text"));
  EXPECT_THAT(refused(R"({"prompt":[],"completion":[{"role":"user","content":"d"}]})"),
              HasSubstr("\"completion\" has no message of the assistant"));
}

TEST(Records, HaveTheKeysThatTheRunFileSays) {
  EXPECT_EQ(messages_of(R"({"talk":)" + kHello + R"(,"text":"x"})",
                        RecordFields(RecordFields::Names{{"messages", "talk"}})),
            kHello);
  const Record pair = record_of(R"({"q":"a","a":"b"})",
                                RecordFields(RecordFields::Names{{"prompt", "q"}, {"completion", "a"}}));
  EXPECT_EQ(pair.prompt + "/" + pair.completion, "a/b");
  const RecordFields dolly(RecordFields::Names{{"input", "context"}, {"output", "response"}});
  EXPECT_EQ(messages_of(R"({"instruction":"do","context":"this","response":"done"})", dolly),
            R"([{"role":"user","content":"do\nthis"},{"role":"assistant","content":"done"}])");
  const RecordFields halves(RecordFields::Names{{"prompt", "instruction"}, {"completion", "output"}});
  EXPECT_EQ(record_of(R"({"instruction":"do","input":"","output":"done"})", halves).prompt, "do");
  EXPECT_THAT(refused(R"({"instruction":"do","input":"this","output":"done"})", halves),
              HasSubstr("\"input\" belongs to the instruction"));
}

TEST(Records, OfTwoFormsAreRefused) {
  for (const char* json :
       {R"({"text":"a","messages":[]})", R"({"instruction":"a","output":"b","text":"c"})",
        R"({"messages":[],"conversations":[]})", R"({"prompt":"a"})", R"({"output":"a"})", "[]"})
    EXPECT_THAT(refused(json), HasSubstr("expected an object with \"text\", or")) << json;
}

TEST(Records, SayWhichOfTheAssistantsMessagesAreLearned) {
  const auto learned = [](const std::string& more) {
    return record_of(R"({"messages":[{"role":"user","content":"a","weight":0},)"
                     R"({"role":"assistant","content":"b",)" +
                     more + R"(},{"role":"assistant","content":"c"}]})")
        .are_learned;
  };
  for (const char* no :
       {R"("weight":0)", R"("weight":0.0)", R"("train":false)", R"("training":false)", R"("loss":0)"})
    EXPECT_THAT(learned(no), ElementsAre(false, true)) << no;
  for (const char* yes : {R"("weight":1)", R"("train":true)", R"("weight":null)", R"("name":"x")"})
    EXPECT_THAT(learned(yes), ElementsAre(true, true)) << yes;
  EXPECT_THAT(refused(R"({"messages":[{"role":"assistant","content":"b","weight":0.5}]})"),
              HasSubstr("message 0: \"weight\" is 0.5, and only 0, 1, false and true are followed"));
  EXPECT_THAT(refused(R"({"messages":[{"role":"user","content":"b","train":true}]})"),
              HasSubstr("\"train\" asks to train on it, and only what the role assistant says"));
  EXPECT_EQ(learned_spans({{0, 1}, {2, 3}}, {false, true}), (std::vector<chat::Span>{{2, 3}}));
  EXPECT_THAT(refusal([] {
                learned_spans({{0, 3}}, {false, true});
              }),
              HasSubstr("marks 1 spans for 2 messages: which of them are those cannot be told"));
}

TEST(Records, FollowWhatStandsBesideMessagesOrRefuseIt) {
  const auto with = [](const std::string& more) { return R"({"messages":)" + kHello + "," + more + "}"; };
  EXPECT_THAT(messages_of(with(R"("system":"be kind")")),
              HasSubstr(R"([{"role":"system","content":"be kind"},)"));
  EXPECT_EQ(messages_of(with(R"("system":"","images":[],"functions":null,"id":7)")), kHello);
  EXPECT_THAT(refused(R"({"system":"a","messages":[{"role":"system","content":"b"}]})"),
              HasSubstr("\"system\" stands beside a message of the role system"));
  EXPECT_THAT(refused(R"({"system":"a","prompt":"b","completion":"c"})"), HasSubstr("needs a conversation"));
  for (const char* key : {"functions", "images", "image", "videos", "audio", "rejected"})
    EXPECT_THAT(refused(with("\"" + std::string(key) + "\":[1]")),
                HasSubstr("\"" + std::string(key) + "\" stands"));
  const std::string tools = R"([{"type":"function"}])";
  EXPECT_EQ(record_of(with("\"tools\":" + tools)).options.tools.dump(), tools);
  EXPECT_EQ(record_of(with(R"("tools":"[{\"type\":\"function\"}]")")).options.tools.dump(), tools);
  EXPECT_TRUE(record_of(with(R"("tools":"")")).options.tools.is_null());
  for (const char* wrong : {R"({"type":"function"})", R"(["{}"])", R"("{}")", "7"})
    EXPECT_THAT(refused(with("\"tools\":" + std::string(wrong))),
                HasSubstr("\"tools\" is no list of objects"));
  EXPECT_THAT(refused(with(R"("tools":"[{")")), HasSubstr("this is not valid JSON"));
  EXPECT_EQ(record_of(with(R"("chat_template_kwargs":{"a":1})")).options.variables.dump(), R"({"a":1})");
  EXPECT_THAT(refused(with(R"("chat_template_kwargs":1)")),
              HasSubstr("\"chat_template_kwargs\" is no object"));
}

TEST(Records, WithImagesOrAudioAreRefused) {
  const auto with = [](const std::string& part) {
    return R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},)" + part + "]}]}";
  };
  for (const char* type : {"image", "image_url", "input_audio", "audio", "video", "file"})
    EXPECT_THAT(refused(with(R"({"type":")" + std::string(type) + "\"}")),
                HasSubstr("messages[0]: \"content\" has a part of type \"" + std::string(type)));
  EXPECT_EQ(record_of(with(R"({"type":"text","text":"b"})")).messages.size(), 1U);
}

}  // namespace
}  // namespace strata
