// What is said to gate.lua and how its answers are read. That the script answers as the pool does
// is tested on real servers, in tests/valkey.
#include "gate/script.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "gate/testing.h"

namespace hg::gate::script {
namespace {

Value integer(std::int64_t number) {
  Value value;
  value.kind = Value::Kind::integer;
  value.integer = number;
  return value;
}

Value word(std::string text) {
  Value value;
  value.kind = Value::Kind::text;
  value.text = std::move(text);
  return value;
}

Value error(std::string text) {
  Value value;
  value.kind = Value::Kind::error;
  value.text = std::move(text);
  return value;
}

Value list(std::vector<Value> items) {
  Value value;
  value.kind = Value::Kind::list;
  value.items = std::move(items);
  return value;
}

Value denied() {
  return list({word("denied"), integer(3), integer(4'890'000), integer(2), word(""),
               integer(250'000), integer(4), word("req"), integer(7), integer(1'500'000),
               integer(0)});
}

TEST(ScriptTest, TheEmbeddedScriptIsTheFile) {
  std::ifstream in(HG_SOURCE_DIR "/src/gate/gate.lua");
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(text(Text::taking), "#!lua\n" + file);
  EXPECT_EQ(text(Text::releasing), "#!lua flags=allow-oom\n" + file);
}

TEST(ScriptTest, AllKeysOfAPoolCarryItsNameAsHashTag) {
  const PoolKeys keys("team/claude-opus");
  ASSERT_EQ(keys.all().size(), 4U);
  EXPECT_EQ(keys.all()[0], "hg1:{team/claude-opus}:pool");
  for (const std::string& key : keys.all()) {
    EXPECT_TRUE(key.starts_with("hg1:{team/claude-opus}:")) << key;
  }
  EXPECT_EQ(keys.wake_channel("shim-1"), "hg1:{team/claude-opus}:wake:shim-1");
}

TEST(ScriptTest, NoNameOfAPoolDisturbsTheHashTag) {
  EXPECT_EQ(PoolKeys("a}b{c %").all()[0], "hg1:{a%7Db%7Bc%20%25}:pool");
  EXPECT_EQ(PoolKeys("\xc3\xa4").all()[0], "hg1:{\xc3\xa4}:pool") << "letters stay as they are";
}

TEST(ScriptTest, ReleasingOperationsUseTheTextThatRunsWithoutMemory) {
  EXPECT_EQ(acquire({}).text, Text::taking);
  EXPECT_EQ(create({}).text, Text::taking);
  EXPECT_EQ(restore(1, {}).text, Text::taking);
  for (const Call& call : {settle({}), overload("a"), leave("a", Pool::Leaving::gone),
                           renew("a", {}, 1s), farewell("a"), step(), view()}) {
    EXPECT_EQ(call.text, Text::releasing) << call.args[0];
  }
}

TEST(ScriptTest, AnAcquireIsItsFieldsInOrder) {
  AcquireRequest request = testing::call("s.1.1", 1'000, 9s);
  request.estimate = 1'200;
  request.output = 30;
  request.since = 4us;
  request.weights = {100'000, 2};
  Call call = acquire(request);
  set_now(call, Instant{5s});
  const std::vector<std::string> expected = {
      "acquire", "5000000", "s.1.1", "s", "pool/harness", "1200",   "1000",
      "30",      "9000000", "0",     "4", "30000000",     "100000", "2"};
  EXPECT_EQ(call.args, expected);
}

TEST(ScriptTest, ARenewSendsNoMoreThanTheScriptReads) {
  const std::vector<LeaseRenewal> many(250);
  EXPECT_EQ(renew("s", many, 30s).args.size(), 4 + 7 * kRenewMax);
}

TEST(ScriptTest, ADenialIsReadWithAllThatItSays) {
  const auto answer = read_acquire(denied());
  ASSERT_TRUE(answer.has_value());
  const AcquireReply expected{Verdict::denied, Axis::req, 7, 1'500ms, 0us, 250'000, 4, 2};
  EXPECT_EQ(answer->reply, expected);
  EXPECT_EQ(answer->notes.version, 3);
  EXPECT_EQ(answer->notes.kappa_micro, 4'890'000);
  EXPECT_FALSE(answer->notes.wake.has_value());
}

TEST(ScriptTest, TheWakeOfAStepStandsInItsReply) {
  Value value = denied();
  value.items[4] = list({word("x.1.1"), word("x"), integer(77), integer(5)});
  const auto answer = read_acquire(value);
  ASSERT_TRUE(answer.has_value() && answer->notes.wake.has_value());
  EXPECT_EQ(answer->notes.wake->id, "x.1.1");
  EXPECT_EQ(answer->notes.wake->shim, "x");
  EXPECT_EQ(answer->notes.wake->at, Instant{77us});
  EXPECT_EQ(answer->notes.wake->in, 5us);
}

TEST(ScriptTest, AnAnswerCutShortAnywhereIsNotUnderstood) {
  const Value whole = denied();
  for (std::size_t length = 0; length < whole.items.size(); ++length) {
    Value cut = whole;
    cut.items.resize(length);
    const auto answer = read_acquire(cut);
    ASSERT_FALSE(answer.has_value()) << length;
    EXPECT_EQ(answer.error().code, Errc::protocol);
  }
  for (std::size_t i = 0; i < whole.items.size(); ++i) {
    Value changed = whole;
    changed.items[i] = Value{};
    EXPECT_FALSE(read_acquire(changed).has_value()) << i;
  }
}

TEST(ScriptTest, ErrorsOfTheScriptBecomeOurs) {
  const struct {
    const char* text;
    Errc code;
    const char* detail;
  } rows[] = {
      {"NOPOOL no such pool", Errc::not_found, "no such pool"},
      {"HGCONFIG c_req is 0 script: 9ab1, on @user_script:57.", Errc::invalid, "c_req is 0"},
      {"HGARG too few", Errc::invalid, "too few"},
      {"HGVERSION use a newer release", Errc::protocol, "use a newer release"},
      {"OOM command not allowed", Errc::unavailable,
       "the store is out of memory (give it more, and maxmemory-policy noeviction): OOM command "
       "not "
       "allowed"},
      {"READONLY You can't write", Errc::unavailable, "READONLY You can't write"},
  };
  for (const auto& row : rows) {
    const auto answer = read_done(error(row.text));
    ASSERT_FALSE(answer.has_value()) << row.text;
    EXPECT_EQ(answer.error().code, row.code) << row.text;
    EXPECT_EQ(answer.error().detail, row.detail);
  }
}

TEST(ScriptTest, AnAcquireWithoutAPoolIsAVerdict) {
  const auto answer = read_acquire(error("NOPOOL this store has no such pool"));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->reply.verdict, Verdict::no_pool);
}

TEST(ScriptTest, AConfigurationIsReadBack) {
  PoolConfig config = testing::roomy_config();
  config.limits.c_out = 5;
  config.limits.r_out = 6;
  config.seed_source = "operator, by hand";
  config.seeded_at = WallTime{Micros{1'767'225'600'000'000}};
  config.refused_calls_count = true;
  const auto answer = read_summary(list(
      {word("ok"), integer(9), integer(5'000'000), integer(1), word(""),
       word(
           "200000 40000 100000000 100000 1000000000 5 6 1 15000000 4890000 1000000 0 200000 40000 "
           "100000000 100000 1000000000 0 0 1767225600000000 operator, by hand")}));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->config, config);
  EXPECT_EQ(answer->version, 9);
}

TEST(ScriptTest, AMessageTellsTheWaiterAndItsMoment) {
  const auto note = read_wake("1500 1796086576920609 a b.1");
  ASSERT_TRUE(note.has_value());
  EXPECT_EQ(note->in, 1'500us);
  EXPECT_EQ(note->at, Instant{Micros{1'796'086'576'920'609}});
  EXPECT_EQ(note->id, "a b.1");
  EXPECT_EQ(read_wake("7 8 ")->id, "") << "all waiters of that shim";
  for (const char* text : {"", "x", "1", "1 x id", "-1 5 id", "1.5 2 id"}) {
    EXPECT_FALSE(read_wake(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace hg::gate::script
