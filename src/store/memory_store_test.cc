#include "store/memory_store.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/test_loop.h"

namespace hg::store {
namespace {

using net::Task;
using net::Woken;

// Waits of hours, so that no real timer fires in a test: the clock is set by hand.
gate::PoolConfig config(std::int64_t r_tok = 1, Tokens c_burst = 100'000) {
  gate::PoolConfig config;
  config.limits.c_burst = c_burst;
  config.limits.r_tok = r_tok;
  config.limits.k_inflight = 1'000'000'000;
  config.limits.c_req = 1'000'000;
  config.limits.r_qps = 1'000'000'000;
  config.seed = config.limits;
  config.seed_source = "test";
  return config;
}

gate::AcquireRequest ask_for(const std::string& id, Tokens tokens, Micros hold = 10h) {
  gate::AcquireRequest request;
  request.id = id;
  request.shim = "shim";
  request.alias = "p/harness";
  request.estimate = tokens;
  request.charge = tokens;
  request.hold_left = hold;
  request.lease_ttl = 10h;
  return request;
}

gate::SettleRequest settle_of(const std::string& id) {
  gate::SettleRequest request;
  request.id = id;
  return request;
}

class MemoryStoreTest : public testing::Test {
 protected:
  void create(const std::string& pool, const gate::PoolConfig& with = config()) {
    ASSERT_TRUE(loop_.run(store_->create(pool, with)));
  }

  gate::AcquireReply acquire(const std::string& pool, const gate::AcquireRequest& request) {
    const Result<gate::AcquireReply> reply = loop_.run(store_->acquire(pool, request));
    EXPECT_TRUE(reply);
    return *reply;
  }

  // Starts a wait; its end is noted in woken_.
  void start_wait(const std::string& id, Instant until) {
    group_.spawn("wait " + id, note_wait(store_.get(), id, until, &woken_));
    settle_down();
  }

  static Task<void> note_wait(MemoryStore* store, std::string id, Instant until,
                              std::map<std::string, Woken>* woken) {
    const Woken why = co_await store->wait("p", id, until);
    woken->emplace(id, why);
  }

  // Lets everything run that can run without time going by.
  void settle_down() {
    loop_.io.restart();
    loop_.io.poll();
  }

  // Time goes by in steps that a living shim's heartbeat would make.
  void pass(Micros time) {
    for (Micros done{0}; done < time; done += 1s) {
      clock_.advance(1s);
      static_cast<void>(loop_.run(store_->renew("p", "shim", {}, 10h)));
      store_->run_due();
      settle_down();
    }
  }

  void TearDown() override {
    store_->close();
    settle_down();
    EXPECT_EQ(group_.size(), 0U) << "a wait was left";
  }

  net::TestLoop loop_;
  ManualClock clock_;
  net::TaskGroup group_{loop_.executor()};
  std::unique_ptr<MemoryStore> store_ = std::make_unique<MemoryStore>(loop_.executor(), clock_);
  std::map<std::string, Woken> woken_;
};

TEST_F(MemoryStoreTest, KeepsPoolsByName) {
  create("b");
  create("a");
  EXPECT_TRUE(store_->exists("a"));
  EXPECT_FALSE(store_->exists("c"));
  EXPECT_EQ(store_->names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(loop_.run(store_->create("a", config())).error().code, Errc::conflict);
  gate::PoolConfig impossible = config();
  impossible.limits.r_tok = 0;
  EXPECT_EQ(loop_.run(store_->create("c", impossible)).error().code, Errc::invalid);
}

TEST_F(MemoryStoreTest, APoolThatIsNotThereSaysSo) {
  EXPECT_EQ(acquire("none", ask_for("1", 1)).verdict, gate::Verdict::no_pool);
  EXPECT_EQ(loop_.run(store_->settle("none", settle_of("1"))).error().code, Errc::not_found);
  EXPECT_EQ(loop_.run(store_->view("none")).error().code, Errc::not_found);
  EXPECT_EQ(loop_.run(store_->wait("none", "1", clock_.now())), Woken::cancelled);
}

TEST_F(MemoryStoreTest, ConfiguresAndShowsAPool) {
  create("p");
  const Result<PoolSummary> before = loop_.run(store_->summary("p"));
  ASSERT_TRUE(before);
  EXPECT_EQ(before->config.limits.r_tok, 1);
  const auto version = loop_.run(store_->configure("p", before->version, config(7)));
  ASSERT_TRUE(version);
  const Result<gate::PoolView> view = loop_.run(store_->view("p"));
  ASSERT_TRUE(view);
  EXPECT_EQ(view->config.limits.r_tok, 7);
  EXPECT_EQ(view->version, *version);
}

TEST_F(MemoryStoreTest, AWaiterIsWokenWhenItsTokensAreThereAndNotBefore) {
  create("p");
  ASSERT_EQ(acquire("p", ask_for("first", 100'000)).verdict, gate::Verdict::admitted);
  ASSERT_EQ(acquire("p", ask_for("second", 60)).verdict, gate::Verdict::denied);
  start_wait("second", clock_.now() + 10h);
  pass(59s);
  EXPECT_TRUE(woken_.empty());
  pass(1s);
  ASSERT_EQ(woken_.size(), 1U);
  EXPECT_EQ(woken_.at("second"), Woken::notified);
  EXPECT_EQ(acquire("p", ask_for("second", 60)).verdict, gate::Verdict::admitted);
}

TEST_F(MemoryStoreTest, ASettlementThatRefundsWakesTheHeadAtOnce) {
  create("p");
  ASSERT_EQ(acquire("p", ask_for("first", 100'000)).verdict, gate::Verdict::admitted);
  ASSERT_EQ(acquire("p", ask_for("second", 50'000)).verdict, gate::Verdict::denied);
  start_wait("second", clock_.now() + 10h);
  gate::SettleRequest refund = settle_of("first");
  refund.by = gate::Settlement::refund;
  ASSERT_TRUE(loop_.run(store_->settle("p", refund)));
  settle_down();
  EXPECT_EQ(woken_.at("second"), Woken::notified);
}

TEST_F(MemoryStoreTest, ATurnThatComesBeforeTheWaitIsNotLost) {
  create("p");
  ASSERT_EQ(acquire("p", ask_for("first", 100'000)).verdict, gate::Verdict::admitted);
  ASSERT_EQ(acquire("p", ask_for("second", 1)).verdict, gate::Verdict::denied);
  clock_.advance(2s);
  store_->run_due();
  EXPECT_EQ(loop_.run(store_->wait("p", "second", clock_.now() + 10h)), Woken::notified);
}

TEST_F(MemoryStoreTest, AWaitEndsAtItsDeadlineOrWhenItsOwnerGivesUp) {
  create("p");
  ASSERT_EQ(acquire("p", ask_for("first", 100'000)).verdict, gate::Verdict::admitted);
  ASSERT_EQ(acquire("p", ask_for("a", 50'000)).verdict, gate::Verdict::denied);
  ASSERT_EQ(acquire("p", ask_for("b", 50'000)).verdict, gate::Verdict::denied);
  EXPECT_EQ(loop_.run(store_->wait("p", "a", clock_.now())), Woken::deadline);
  start_wait("b", clock_.now() + 10h);
  store_->end_wait("p", "b");
  store_->end_wait("p", "nobody");
  settle_down();
  EXPECT_EQ(woken_.at("b"), Woken::cancelled);
}

TEST_F(MemoryStoreTest, WhenTheHeadLeavesTheNextIsWoken) {
  create("p");
  ASSERT_EQ(acquire("p", ask_for("first", 100'000)).verdict, gate::Verdict::admitted);
  ASSERT_EQ(acquire("p", ask_for("head", 90'000)).verdict, gate::Verdict::denied);
  ASSERT_EQ(acquire("p", ask_for("next", 10)).verdict, gate::Verdict::denied);
  start_wait("next", clock_.now() + 10h);
  pass(20s);
  EXPECT_TRUE(woken_.empty()) << "nobody passes a blocked head";
  ASSERT_TRUE(loop_.run(store_->leave("p", "head", gate::Pool::Leaving::gone)));
  settle_down();
  EXPECT_EQ(woken_.at("next"), Woken::notified);
}

TEST_F(MemoryStoreTest, APauseIsToldToAllWaitersAtOnce) {
  create("p");
  ASSERT_EQ(acquire("p", ask_for("first", 100'000)).verdict, gate::Verdict::admitted);
  for (const char* id : {"a", "b", "c"}) {
    ASSERT_EQ(acquire("p", ask_for(id, 50'000)).verdict, gate::Verdict::denied);
    start_wait(id, clock_.now() + 10h);
  }
  ASSERT_TRUE(loop_.run(store_->pause("p", 600s)));
  settle_down();
  EXPECT_EQ(woken_.size(), 3U);
  const gate::AcquireReply reply = acquire("p", ask_for("b", 50'000));
  EXPECT_EQ(reply.verdict, gate::Verdict::denied);
  EXPECT_EQ(reply.axis, gate::Axis::paused);
}

TEST_F(MemoryStoreTest, CloseEndsEveryWait) {
  create("p");
  ASSERT_EQ(acquire("p", ask_for("first", 100'000)).verdict, gate::Verdict::admitted);
  ASSERT_EQ(acquire("p", ask_for("a", 50'000)).verdict, gate::Verdict::denied);
  start_wait("a", clock_.now() + 10h);
  store_->close();
  settle_down();
  EXPECT_EQ(woken_.at("a"), Woken::cancelled);
  EXPECT_EQ(loop_.run(store_->wait("p", "a", clock_.now() + 10h)), Woken::cancelled);
}

// ---- Nothing polls ----------------------------------------------------------------------------

struct Fleet {
  MemoryStore* store = nullptr;
  int asks = 0;
  int admitted = 0;
};

// A caller as the shim is one: asks, sleeps until it is woken, asks again, gives the lease back.
Task<void> one_caller(Fleet* fleet, std::string id, Instant until) {
  const gate::AcquireRequest request = ask_for(id, 1'000);
  for (;;) {
    ++fleet->asks;
    const Result<gate::AcquireReply> reply = co_await fleet->store->acquire("p", request);
    if (reply && reply->verdict == gate::Verdict::admitted) break;
    const Woken woken = co_await fleet->store->wait("p", id, until);
    if (woken != Woken::notified) co_return;
  }
  ++fleet->admitted;
  const gate::SettleRequest done = settle_of(id);
  const Result<bool> settled = co_await fleet->store->settle("p", done);
  static_cast<void>(settled);
}

TEST_F(MemoryStoreTest, FiveHundredWaitersAskAtMostTwiceEach) {
  create("p", config(10'000, 100'000));
  Fleet fleet;
  fleet.store = store_.get();
  const Instant start = clock_.now();
  for (int i = 0; i < 600; ++i) {
    group_.spawn("caller", one_caller(&fleet, std::to_string(i), start + 10h));
  }
  settle_down();
  EXPECT_EQ(fleet.admitted, 100) << "the burst";
  for (int tenths = 0; tenths < 510; ++tenths) {
    clock_.advance(100ms);
    store_->run_due();
    settle_down();
  }
  EXPECT_EQ(fleet.admitted, 600);
  EXPECT_LE(fleet.asks, 2 * 600);
  EXPECT_EQ(group_.size(), 0U);
}

}  // namespace
}  // namespace hg::store
