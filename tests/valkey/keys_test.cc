// What gate.lua does with its keys, its clock, the store's memory and its rights, in real stores.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gate/script.h"
#include "gate/testing.h"
#include "store/test_server.h"
#include "tests/valkey/connection.h"
#include "tests/valkey/duel.h"
#include "tests/valkey/history.h"
#include "tests/valkey/script_pool.h"

namespace hg::valkey {
namespace {

namespace script = gate::script;
using gate::Axis;
using gate::Birth;
using gate::Verdict;
using gate::testing::call;
using gate::testing::kStart;
using gate::testing::roomy_config;
using gate::testing::used;
using store::testing::TestServer;
using store::testing::TestServerOptions;

constexpr std::int64_t kLongestPauseS = 7 * 24 * 3'600;

class ScriptKeysTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { start({GetParam()}); }

  void start(const TestServerOptions& options) {
    connection_.reset();
    auto started = TestServer::start(options);
    ASSERT_TRUE(started.has_value()) << started.error().detail;
    server_ = std::move(*started);
    connection_ = std::make_unique<Connection>(server_->socket_path());
  }

  Value run(script::Call call) { return connection_->run(keys_, call); }
  Value run_at(Instant now, script::Call call) {
    set_now(call, now);
    return connection_->run(keys_, call);
  }
  gate::AcquireReply ask(const gate::AcquireRequest& request) {
    const auto answer = script::read_acquire(run(script::acquire(request)));
    EXPECT_TRUE(answer.has_value()) << answer.error().detail;
    return answer ? answer->reply : gate::AcquireReply{};
  }
  // All that is stored, in order.
  std::vector<std::string> stored() {
    std::vector<std::string> lines;
    const Value hash = connection_->command({"HGETALL", keys_.all()[0]});
    for (std::size_t i = 0; i + 1 < hash.items.size(); i += 2) {
      lines.push_back(hash.items[i].text + "=" + hash.items[i + 1].text);
    }
    for (std::size_t key = 1; key < keys_.all().size(); ++key) {
      const Value set = connection_->command({"ZRANGE", keys_.all()[key], "0", "-1", "WITHSCORES"});
      for (std::size_t i = 0; i + 1 < set.items.size(); i += 2) {
        lines.push_back(fmt::format("{} {}:{}", key, set.items[i].text, set.items[i + 1].text));
      }
    }
    std::ranges::sort(lines);
    return lines;
  }
  std::int64_t ttl(const std::string& key) { return connection_->command({"TTL", key}).integer; }

  script::PoolKeys keys_{"pool"};
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<Connection> connection_;
};

TEST_P(ScriptKeysTest, TheStoresOwnClockDecides) {
  gate::PoolConfig config = roomy_config();
  ASSERT_TRUE(script::read_create(run(script::create(config))).has_value());
  EXPECT_EQ(ask(call("a.1", 200'000)).verdict, Verdict::admitted);
  const auto denied = script::read_acquire(run(script::acquire(call("b.1", 40'000))));
  ASSERT_TRUE(denied.has_value());
  EXPECT_EQ(denied->reply.axis, Axis::tok);
  EXPECT_GT(denied->reply.predicted_wait, 0us);
  EXPECT_LE(denied->reply.predicted_wait, 1s);
  ASSERT_TRUE(denied->notes.wake.has_value());
  EXPECT_EQ(denied->notes.wake->in, denied->reply.predicted_wait) << "durations, for any clock";
}

TEST_P(ScriptKeysTest, APoolIsFourKeysEachWithALifetimeFromItsFirstMomentOn) {
  ASSERT_TRUE(script::read_create(run(script::create(roomy_config()))).has_value());
  const auto check = [this](const char* when) {
    Value all = connection_->command({"KEYS", "*"});
    std::vector<std::string> names;
    for (const Value& name : all.items) names.push_back(name.text);
    std::vector<std::string> expected = keys_.all();
    std::ranges::sort(names);
    std::ranges::sort(expected);
    EXPECT_EQ(names, expected) << when;
    for (const std::string& key : keys_.all()) EXPECT_GT(ttl(key), kLongestPauseS) << when << key;
  };
  check("new ");
  for (int i = 0; i < 20; ++i) ask(call(fmt::format("a.{}", i), 30'000));
  check("with leases and waiters ");
  for (int i = 0; i < 20; ++i) {
    run(script::settle(used(fmt::format("a.{}", i), 1)));
    run(script::leave(fmt::format("a.{}", i), gate::Pool::Leaving::gone));
  }
  run(script::farewell("a"));
  check("and when all has gone ");
}

TEST_P(ScriptKeysTest, TheLifetimeBeginsAnewWhileThePoolIsUsed) {
  ScriptPool pool(*connection_, "pool", roomy_config(), Birth::created_full, kStart);
  const auto shorten = [this] {
    for (const std::string& key : keys_.all()) connection_->command({"EXPIRE", key, "1000"});
  };
  shorten();
  pool.step(kStart + 59min);
  for (const std::string& key : keys_.all()) EXPECT_LE(ttl(key), 1'000) << "not at every step";
  pool.step(kStart + 61min);
  for (const std::string& key : keys_.all()) EXPECT_GT(ttl(key), kLongestPauseS);
  shorten();
  pool.step(kStart);
  for (const std::string& key : keys_.all()) {
    EXPECT_GT(ttl(key), kLongestPauseS) << "a clock that went back proves nothing";
  }
}

TEST_P(ScriptKeysTest, AnyKeyMissingIsALostPool) {
  for (const std::string& missing : keys_.all()) {
    SCOPED_TRACE(missing);
    ASSERT_TRUE(script::read_create(run(script::create(roomy_config()))).has_value());
    EXPECT_EQ(ask(call("a.1", 1)).verdict, Verdict::admitted);
    connection_->command({"DEL", missing});
    EXPECT_EQ(ask(call("a.2", 1)).verdict, Verdict::no_pool);
    for (const script::Call& other :
         {script::settle(used("a.1", 1)), script::renew("a", {}, 30s), script::view(),
          script::step(), script::configure(1, roomy_config()), script::pause(1s)}) {
      const auto answer = script::read_done(run(other));
      ASSERT_FALSE(answer.has_value()) << other.args[0];
      EXPECT_EQ(answer.error().code, Errc::not_found) << other.args[0];
    }
    EXPECT_TRUE(script::read_done(run(script::restore(4, roomy_config(), 7))).has_value());
    const auto view = script::read_view(run(script::view()));
    ASSERT_TRUE(view.has_value());
    EXPECT_EQ(view->version, 4);
    EXPECT_EQ(view->epoch, 8U) << "above the last that was seen";
    EXPECT_TRUE(view->leases.empty());
    EXPECT_LT(view->tokens, 200'000 * kMicro) << "empty, so that nobody bursts twice";
    connection_->command({"FLUSHALL"});
  }
}

TEST_P(ScriptKeysTest, CreateLeavesAPoolThatIsThereAlone) {
  ASSERT_TRUE(script::read_create(run(script::create(roomy_config()))).has_value());
  EXPECT_EQ(ask(call("a.1", 100'000)).verdict, Verdict::admitted);
  const auto again = script::read_create(run(script::create(roomy_config())));
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, Errc::conflict);
  EXPECT_EQ(script::read_view(run(script::view()))->leases.size(), 1U);
}

TEST_P(ScriptKeysTest, AHigherFormatIsRefusedByNameAndKept) {
  ASSERT_TRUE(script::read_create(run(script::create(roomy_config()))).has_value());
  std::string state = connection_->command({"HGET", keys_.all()[0], "state"}).text;
  ASSERT_EQ(state.substr(0, 1), "1");
  state[0] = '2';
  connection_->command({"HSET", keys_.all()[0], "state", state});
  const std::vector<std::string> before = stored();
  for (const script::Call& other : {script::acquire(call("a.1", 1)), script::view(),
                                    script::create(roomy_config()), script::step()}) {
    const auto answer = script::read_done(run(other));
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, Errc::protocol);
    EXPECT_EQ(answer.error().detail,
              "the pool is stored in format 2, and this release of Headgate knows format 1: use a "
              "newer release");
  }
  EXPECT_EQ(stored(), before);
}

TEST_P(ScriptKeysTest, OnlyAPoolForTestsTakesTheMomentFromACommand) {
  ASSERT_TRUE(script::read_create(run(script::create(roomy_config()))).has_value());
  EXPECT_EQ(script::read_done(run_at(kStart, script::step())).error().detail,
            "only a pool that was made for tests takes the moment from a command");
  keys_ = script::PoolKeys("of tests");
  ASSERT_TRUE(script::read_create(run_at(kStart, script::create(roomy_config()))).has_value());
  EXPECT_EQ(script::read_done(run(script::step())).error().code, Errc::invalid);
  EXPECT_TRUE(script::read_done(run_at(kStart, script::step())).has_value());
}

TEST_P(ScriptKeysTest, AnErrorLeavesThePoolAsItWas) {
  ScriptPool pool(*connection_, "pool", roomy_config(), Birth::created_full, kStart);
  pool.acquire(call("a.1", 200'000), kStart);
  pool.acquire(call("a.2", 9, 5s), kStart);
  const std::vector<std::string> before = stored();
  // Leases and waiters are past their deadlines by then, so that a step would write first.
  const Instant later = kStart + 9s;
  const std::vector<std::vector<std::string>> wrong = {
      {"acquire", "", "a.3", "a", "x", "1", "1", "0", "1", "0", "0", "1", "1"},
      {"acquire", "", "", "a", "x", "1", "1", "0", "1", "0", "0", "1", "1", "1"},
      {"acquire", "", "a.3", "a", "x", "1", "one", "0", "1", "0", "0", "1", "1", "1"},
      {"settle", "", "a.1", "usage", "1", "2", "3", "4", "five", "0"},
      {"settle", "", "a.1", "gift", "1", "2", "3", "4", "5", "0"},
      {"leave", "", "a.2", "angry"},
      {"leave", ""},
      {"renew", "", "a", "30000000", "a.1", "x", "1", "1", "0", "1"},
      {"renew", "", "a", "30000000", "a.1", "x", "1", "1", "0", "1", "z"},
      {"renew", "", "", "30000000"},
      {"pause", "", "long"},
      {"farewell", ""},
      {"configure", "", "1", "0"},
      {"steal", ""},
  };
  for (const std::vector<std::string>& args : wrong) {
    script::Call bad;
    bad.args = args;
    const auto answer = script::read_done(run_at(later, bad));
    ASSERT_FALSE(answer.has_value()) << args[0];
    EXPECT_EQ(answer.error().code, Errc::invalid) << args[0] << ": " << answer.error().detail;
    EXPECT_EQ(stored(), before) << args[0];
  }
}

TEST_P(ScriptKeysTest, ALimitOutOfRangeIsNamedAsThePoolNamesIt) {
  gate::PoolConfig config = roomy_config();
  config.limits.c_req = 0;
  const auto answer = script::read_create(run(script::create(config)));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().detail, gate::Pool::validate(config).error().detail);
  config.limits.c_req = 1;
  config.limits.c_out = 5;
  const auto half = script::read_create(run(script::create(config)));
  EXPECT_EQ(half.error().detail, gate::Pool::validate(config).error().detail);
}

TEST_P(ScriptKeysTest, AReplayAfterALostReplyChangesNothing) {
  ScriptPool pool(*connection_, "pool", roomy_config(), Birth::created_full, kStart);
  const gate::LeaseRenewal held{"a.1", "x", 1, 1, 0, {}};
  const std::vector<std::pair<const char*, script::Call>> steps = {
      {"admitted", script::acquire(call("a.1", 150'000))},
      {"denied", script::acquire(call("a.2", 150'000))},
      {"denied, behind", script::acquire(call("b.1", 150'000))},
      {"renewed", script::renew("a", std::span(&held, 1), 20s)},
      {"rebuilt",
       script::renew("c", std::vector<gate::LeaseRenewal>{{"c.1", "x", 5, 5, 0, {}}}, 20s)},
      {"settled", script::settle(used("a.1", 70'000))},
      {"left", script::leave("b.1", gate::Pool::Leaving::timed_out)},
      {"overloaded", script::overload("c.1")},
      {"gone", script::farewell("c")},
  };
  for (const auto& [what, step] : steps) {
    run_at(kStart, step);
    const std::vector<std::string> after = stored();
    const Value again = run_at(kStart, step);
    EXPECT_NE(again.kind, Value::Kind::error) << what << ": " << again.text;
    EXPECT_EQ(stored(), after) << what;
  }
}

TEST_P(ScriptKeysTest, WithoutMemoryOnlyWhatTakesIsRefused) {
  ASSERT_TRUE(script::read_create(run(script::create(roomy_config()))).has_value());
  for (const char* id : {"a.1", "a.2", "a.3"}) ask(call(id, 60'000));
  ask(call("a.4", 60'000));
  connection_->command({"CONFIG", "SET", "maxmemory", "1"});
  const std::vector<std::string> before = stored();
  for (const script::Call& taking : {script::acquire(call("a.5", 1)), script::create({})}) {
    const auto answer = script::read_acquire(run(taking));
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, Errc::unavailable);
    EXPECT_TRUE(answer.error().detail.starts_with("the store is out of memory"))
        << answer.error().detail;
  }
  EXPECT_EQ(stored(), before) << "and nothing is half done";
  EXPECT_TRUE(script::read_done(run(script::settle(used("a.1", 1))))->reply);
  EXPECT_TRUE(script::read_done(run(script::overload("a.2")))->reply);
  EXPECT_TRUE(script::read_done(run(script::leave("a.4", gate::Pool::Leaving::gone)))->reply);
  EXPECT_TRUE(script::read_renew(run(script::renew("a", {}, 30s))).has_value());
  EXPECT_TRUE(script::read_view(run(script::view())).has_value());
  connection_->command({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(ask(call("a.5", 1)).verdict, Verdict::admitted);
}

// Plays a history and answers the wakes that its replies told, as channel and message.
std::vector<std::string> play(Connection& connection, const script::PoolKeys& keys,
                              int operations) {
  Author author(manners()[0], 8);
  const History& history = author.history();
  gate::Pool memory(history.config, history.birth, history.start);
  script::Call create = history.birth == Birth::created_full ? script::create(history.config)
                                                             : script::restore(1, history.config);
  set_now(create, history.start);
  EXPECT_EQ(connection.run(keys, create).kind, Value::Kind::list);
  std::vector<std::string> told;
  for (int i = 0; i < operations; ++i) {
    const Operation operation = author.next(memory);
    const Told expected = tell(memory, operation);
    if (expected.acquired) author.heard(*expected.acquired);
    if (expected.wake) author.heard(*expected.wake);
    const Value reply = connection.run(keys, call_of(operation));
    EXPECT_EQ(answer_of(reply, operation.kind), expected.text) << "operation " << i;
    if (operation.kind == Operation::Kind::pause || !expected.wake) continue;
    const Value& wake = reply.items.at(4);
    told.push_back(fmt::format("{} {} {} {}", keys.wake_channel(expected.wake->shim),
                               wake.items.at(3).integer, expected.wake->at.since_zero.count(),
                               expected.wake->id));
  }
  return told;
}

// What a subscriber has heard, up to a last message; those of pauses (to all waiters) left out.
std::vector<std::string> heard(Connection& subscriber, Connection& connection) {
  connection.command({"PUBLISH", "hg1:{pool}:wake:", "end"});
  std::vector<std::string> messages;
  for (;;) {
    const Value message = subscriber.receive();
    const std::string& text = message.items.at(3).text;
    if (text == "end") return messages;
    if (!text.ends_with(' ')) messages.push_back(message.items.at(2).text + " " + text);
  }
}

TEST_P(ScriptKeysTest, EveryWakeIsPublishedToItsShimAsTheReplySays) {
  Connection subscriber(server_->socket_path());
  subscriber.command({"PSUBSCRIBE", "hg1:{pool}:wake:*"});
  std::vector<std::string> told = play(*connection_, keys_, 600);
  EXPECT_GT(told.size(), 20U);
  std::vector<std::string> messages = heard(subscriber, *connection_);
  // A pause wakes the head by a message of its own, which `play` leaves out.
  std::erase_if(messages, [&told](const std::string& message) {
    return std::ranges::find(told, message) == told.end();
  });
  EXPECT_EQ(messages, told);
  for (const std::string& message : messages) {
    const std::string payload = message.substr(message.find(' ') + 1);
    EXPECT_TRUE(script::read_wake(payload).has_value()) << payload;
  }
}

TEST_P(ScriptKeysTest, APauseIsToldToEachShimThatHasWaiters) {
  ScriptPool pool(*connection_, "pool", roomy_config(), Birth::restored_empty, kStart);
  pool.acquire(call("a.1", 10), kStart);
  pool.acquire(call("b.1", 10), kStart);
  pool.acquire(call("b.2", 10), kStart);
  pool.renew("c", {}, 30s, kStart);
  Connection subscriber(server_->socket_path());
  subscriber.command({"PSUBSCRIBE", "hg1:{pool}:wake:*"});
  ASSERT_EQ(pool.pause(30s, kStart).size(), 3U);
  connection_->command({"PUBLISH", "hg1:{pool}:wake:", "end"});
  std::vector<std::string> paused;
  for (;;) {
    const Value message = subscriber.receive();
    const std::string& text = message.items.at(3).text;
    if (text == "end") break;
    const auto note = script::read_wake(text);
    ASSERT_TRUE(note.has_value());
    EXPECT_EQ(note->in, 30s);
    if (note->id.empty()) paused.push_back(message.items.at(2).text);
  }
  std::ranges::sort(paused);
  const std::vector<std::string> expected = {keys_.wake_channel("a"), keys_.wake_channel("b")};
  EXPECT_EQ(paused, expected);
}

TEST_P(ScriptKeysTest, NoKeyButTheDeclaredOnesAndNoRightToPublishAreNeeded) {
  std::vector<std::string> rights = {
      "ACL",           "SETUSER",     "gate",     "on",           ">secret", "resetkeys",
      "resetchannels", "-@all",       "+evalsha", "+script|load", "+time",   "+exists",
      "+@hash",        "+@sortedset", "+expire",  "+del",         "+unlink", "+publish"};
  for (const std::string& key : keys_.all()) rights.push_back("~" + key);
  ASSERT_EQ(connection_->command(rights).text, "OK");
  ASSERT_EQ(connection_->command({"AUTH", "gate", "secret"}).text, "OK");
  EXPECT_GT(play(*connection_, keys_, 600).size(), 20U) << "a step that may not publish succeeds";
}

TEST_P(ScriptKeysTest, InAClusterAPoolIsOneSlotAndItsWakesAreHeard) {
  TestServerOptions options{GetParam()};
  options.tcp = true;
  options.cluster = true;
  start(options);
  ASSERT_EQ(connection_->command({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"}).text, "OK");
  // The node believes that it may answer a moment after it has all slots.
  Value state;
  for (int waited_ms = 0; waited_ms < 30'000; waited_ms += 20) {
    state = connection_->command({"CLUSTER", "INFO"});
    if (state.text.find("cluster_state:ok") != std::string::npos) break;
    ::poll(nullptr, 0, 20);
  }
  std::vector<std::int64_t> slots;
  for (const std::string& key : keys_.all()) {
    slots.push_back(connection_->command({"CLUSTER", "KEYSLOT", key}).integer);
  }
  EXPECT_EQ(std::ranges::count(slots, slots[0]), 4);
  Connection subscriber(server_->socket_path());
  subscriber.command({"PSUBSCRIBE", "hg1:{pool}:wake:*"});
  const std::vector<std::string> told = play(*connection_, keys_, 300);
  EXPECT_GE(heard(subscriber, *connection_).size(), told.size());
}

INSTANTIATE_TEST_SUITE_P(Stores, ScriptKeysTest, ::testing::Values("valkey-server", "redis-server"),
                         [](const auto& row) { return row.index == 0 ? "Valkey" : "Redis"; });

}  // namespace
}  // namespace hg::valkey
