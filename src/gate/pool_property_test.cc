// Random histories over all operations: the pool answers as the plain second writing of the rules
// does, number for number, and its books balance.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gate/naive_pool.h"
#include "gate/pool.h"
#include "gate/testing.h"

namespace hg::gate {
namespace {

using testing::kStart;

// One operation, in small numbers that can be shrunk; `Player` gives them their meaning.
struct Move {
  std::uint8_t kind = 0;   // Which operation.
  std::uint8_t delay = 0;  // How much time passes before it.
  std::uint8_t who = 0;    // Which id and shim.
  std::uint8_t size = 0;   // Which of the sizes.
  std::uint8_t extra = 0;  // Weights, seniority, priority, usage.
};

// RapidCheck finds it by this name.
[[maybe_unused]] void showValue(const Move& move,  // NOLINT(readability-identifier-naming)
                                std::ostream& out) {
  out << "{" << int{move.kind} << "," << int{move.delay} << "," << int{move.who} << ","
      << int{move.size} << "," << int{move.extra} << "}";
}

std::string text_of(const AcquireReply& reply) {
  std::ostringstream out;
  out << "verdict " << int{static_cast<std::uint8_t>(reply.verdict)} << " axis "
      << to_string(reply.axis) << " place " << reply.place << " wait "
      << reply.predicted_wait.count() << " pause " << reply.pause_left.count() << " share "
      << reply.share_ppm << " shims " << reply.shims << " epoch " << reply.epoch;
  return out.str();
}

std::string text_of(const std::optional<Wake>& wake) {
  if (!wake) return "nobody";
  return wake->id + " at " + std::to_string((wake->at - kStart).count());
}

std::string text_of(const std::optional<Instant>& at) {
  return at ? std::to_string((*at - kStart).count()) : "never";
}

// Plays moves on both pools and compares everything that can be seen after each. The first
// difference is kept as text; nothing more is played then.
class Player {
 public:
  explicit Player(const PoolConfig& config, Birth birth)
      : config_(config), pool_(config, birth, kStart), naive_(config, birth, kStart) {}

  void play(const Move& move) {
    if (!difference_.empty()) return;
    pass_time(move);
    const std::string id = id_of(move);
    switch (move.kind % 20) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
      case 6: ask(move, id); break;
      case 7: settle(move, id, Settlement::usage); break;
      case 8: settle(move, some_lease(move), Settlement::usage); break;
      case 9: settle(move, some_lease(move), Settlement::refund); break;
      case 10: settle(move, some_lease(move), Settlement::estimate); break;
      case 11: {
        const std::string lease = some_lease(move);
        compare("overload", pool_.overload(lease, now_), naive_.overload(lease, now_));
        break;
      }
      case 12: leave(move, some_waiter(move)); break;
      case 13: leave(move, id); break;
      case 14:
      case 15:
      case 16: renew(move); break;
      case 17: configure(move); break;
      case 18:
        if (move.extra % 4 == 0) {
          pause(move);
        } else if (move.extra % 4 == 1) {
          pool_.farewell(shim_of(move), now_);
          naive_.farewell(shim_of(move), now_);
        } else {
          pool_.resume(now_);
          naive_.resume(now_);
        }
        break;
      default:
        pool_.step(now_);
        naive_.step(now_);
        break;
    }
    compare_all();
  }

  // Everybody who waits is served in the end, if they ask when they are told, and nothing is left.
  void drain() {
    int asks = 0;
    pool_.resume(now_);
    naive_.resume(now_);
    compare_all();
    while (difference_.empty() && !(naive_.lease_ids().empty() && naive_.waiter_ids().empty())) {
      for (const std::string& lease : naive_.lease_ids()) {
        SettleRequest done;
        done.id = lease;
        compare("settle", pool_.settle(done, now_), naive_.settle(done, now_));
        compare("settle once", pool_.settle(done, now_), false);
        compare("settle once", naive_.settle(done, now_), false);
      }
      compare_all();
      const std::vector<std::string> waiting = naive_.waiter_ids();
      if (waiting.empty()) continue;
      for (const std::string& id : waiting) {
        AcquireRequest request = testing::call(id, 0, 1h);
        compare("acquire", pool_.acquire(request, now_), naive_.acquire(request, now_));
        ++asks;
      }
      compare_all();
      if (next_wake_ && next_wake_->at > now_) {
        // The moment may be far: the heart beats meanwhile.
        now_ = std::min(next_wake_->at, now_ + 5s);
        pool_.step(now_);
        naive_.step(now_);
      }
      if (asks > 200'000) difference_ = "the queue does not drain";
    }
    compare("idle", pool_.idle(), true);
    compare("inflight", pool_.view(now_).inflight, Tokens{0});
  }

  [[nodiscard]] const std::string& difference() const { return difference_; }
  [[nodiscard]] int admitted() const { return admitted_; }

 private:
  static constexpr Tokens kSizes[] = {0, 1, 7, 400, 1'000, 2'000, 2'500, 5'000};

  static std::string shim_of(const Move& move) { return std::string(1, "abcd"[move.who % 4]); }
  static std::string id_of(const Move& move) {
    return shim_of(move) + "." + std::to_string(move.who / 4 % 8) + "." +
           std::to_string(move.extra % 3);
  }
  static Tokens size_of(std::uint8_t size) { return kSizes[size % std::size(kSizes)]; }

  std::string some_lease(const Move& move) const {
    const std::vector<std::string> leases = naive_.lease_ids();
    return leases.empty() ? "none" : leases[move.who % leases.size()];
  }
  std::string some_waiter(const Move& move) const {
    const std::vector<std::string> waiters = naive_.waiter_ids();
    return waiters.empty() ? "none" : waiters[move.who % waiters.size()];
  }

  void pass_time(const Move& move) {
    const std::optional<Instant> event = pool_.next_event();
    switch (move.delay % 16) {
      case 0:
      case 1:
      case 2: break;
      case 3: now_ = now_ + 1us; break;
      case 4: now_ = now_ + 13'579us; break;
      case 5:
      case 6: now_ = now_ + 300ms; break;
      case 7: now_ = now_ + 1s; break;
      case 8: now_ = now_ + 2'000'001us; break;
      case 9:
      case 10:
        if (event && *event > now_) now_ = *event;
        break;
      case 11:
      case 12:
        if (next_wake_ && next_wake_->at > now_) now_ = next_wake_->at;
        break;
      case 13: now_ = now_ + Micros{move.extra * 41'000}; break;
      case 14:
        if (move.extra % 8 == 0) now_ = now_ - 3s;
        break;
      default:
        if (move.extra % 8 == 0) now_ = now_ + 11s;
        if (move.extra % 32 == 1) now_ = now_ + 601s;
        break;
    }
  }

  void ask(const Move& move, const std::string& id) {
    AcquireRequest request;
    request.id = id;
    request.shim = shim_of(move);
    request.alias = "x";
    request.charge = size_of(move.size);
    request.estimate = move.extra % 2 == 0 ? request.charge : size_of(move.size / 8);
    request.output = size_of(move.extra / 16);
    request.hold_left = Micros{move.extra % 5 * 7'000'000};
    request.head_start = move.extra % 7 == 0 ? Micros{3s} : Micros{0};
    request.since = move.extra % 11 == 0 ? Micros{9s} : Micros{0};
    request.lease_ttl = Micros{10s} + Micros{move.size % 3 * 10'000'000};
    request.weights = {100'000 * (move.extra % 12), 333'333 * (move.extra % 4)};
    const AcquireReply reply = pool_.acquire(request, now_);
    compare("acquire", reply, naive_.acquire(request, now_));
    admitted_ += reply.verdict == Verdict::admitted ? 1 : 0;
    if (naive_.passed_blocked_head()) difference_ = "somebody passed a blocked head";
  }

  void settle(const Move& move, const std::string& id, Settlement by) {
    SettleRequest request;
    request.id = id;
    request.by = by;
    request.usage = {size_of(move.size), size_of(move.extra), size_of(move.size / 4)};
    request.text_chars = move.extra * 97;
    request.flat_tokens = move.extra % 3 == 0 ? 300 : 0;
    request.overloaded = move.extra % 5 == 0;
    compare("settle", pool_.settle(request, now_), naive_.settle(request, now_));
  }

  void leave(const Move& move, const std::string& id) {
    const auto why = move.extra % 2 == 0 ? Pool::Leaving::gone : Pool::Leaving::timed_out;
    compare("leave", pool_.leave(id, why, now_), naive_.leave(id, why, now_));
  }

  void renew(const Move& move) {
    std::vector<LeaseRenewal> leases;
    const std::string shim = shim_of(move);
    for (const std::string& id : naive_.lease_ids()) {
      if (id.starts_with(shim)) leases.push_back({id, "x", 1, 1, 1, {}});
    }
    if (move.extra % 4 == 0) {
      leases.push_back({id_of(move), "x", size_of(move.size), size_of(move.extra), 7, {}});
    }
    compare("renew", pool_.renew(shim, leases, 20s, now_), naive_.renew(shim, leases, 20s, now_));
  }

  void configure(const Move& move) {
    switch (move.size % 6) {
      case 0: config_.limits.c_burst = 1'000 + move.extra * 10; break;
      case 1: config_.limits.r_tok = 100 + move.extra * 7; break;
      case 2: config_.limits.k_inflight = 1'000 + move.extra * 40; break;
      case 3: config_.limits.c_req = 1 + move.extra % 9; break;
      case 4: config_.limits.r_qps = 150'001 + move.extra * 10'007; break;
      default:
        config_.limits.c_out.reset();
        config_.limits.r_out.reset();
        if (move.extra % 2 == 0) {
          config_.limits.c_out = 1'000 + move.extra;
          config_.limits.r_out = 50 + move.extra;
        }
        break;
    }
    config_.refused_calls_count = move.extra % 5 == 0;
    const std::int64_t version = naive_.version() - (move.who % 8 == 0 ? 1 : 0);
    const Result<std::int64_t> changed = pool_.configure(version, config_, now_);
    compare("configure", changed.has_value(), naive_.configure(version, config_, now_));
    config_ = pool_.config();
  }

  void pause(const Move& move) {
    const Micros length = Micros{move.size % 4 * 45'000'000};
    compare("pause", pool_.pause(length, now_), naive_.pause(length, now_));
  }

  void compare_all() {
    const PoolView view = pool_.view(now_);
    compare("tokens", view.tokens, naive_.tokens());
    compare("requests", view.requests, naive_.requests());
    compare("output", view.out.value_or(0), naive_.output());
    compare("inflight", view.inflight, naive_.inflight());
    compare("kappa", view.kappa_micro, naive_.kappa_micro());
    compare("version", view.version, naive_.version());
    compare("epoch", view.epoch, naive_.epoch());
    std::vector<std::string> leases;
    leases.reserve(view.leases.size());
    Tokens sum = 0;
    for (const LeaseView& lease : view.leases) {
      leases.push_back(lease.id);
      sum += lease.estimate;
    }
    compare("sum of the leases", sum, view.inflight);
    compare("leases", leases, naive_.lease_ids());
    std::vector<std::string> waiters;
    waiters.reserve(view.waiters.size());
    for (const WaiterView& waiter : view.waiters) waiters.push_back(waiter.id);
    compare("waiters", waiters, naive_.waiter_ids());
    const std::optional<Wake> wake = pool_.take_wake();
    compare("wake", wake, naive_.take_wake());
    if (wake) next_wake_ = wake;
    compare("next event", pool_.next_event(), naive_.next_event());
    compare("wake is told once", pool_.take_wake(), std::optional<Wake>());
  }

  template <typename T>  // A template because it compares every kind of answer.
  void compare(const char* what, const T& pool, const T& naive) {
    if (pool == naive || !difference_.empty()) return;
    std::ostringstream text;
    text << what << " at " << (now_ - kStart).count() << " us";
    if constexpr (requires { text << pool; }) text << ": " << pool << ", expected " << naive;
    if constexpr (requires { text_of(pool); }) {
      text << ": " << text_of(pool) << ", expected " << text_of(naive);
    }
    difference_ = text.str();
  }

  PoolConfig config_;
  Pool pool_;
  NaivePool naive_;
  Instant now_ = kStart;
  std::optional<Wake> next_wake_;
  int admitted_ = 0;
  std::string difference_;
};

PoolConfig small_config() {
  PoolConfig config;
  config.limits = {2'000, 400, 6'000, 5, 2'000'003, {}, {}};
  config.seed = config.limits;
  return config;
}

Move random_move(Rng& rng) {
  const auto byte = [&rng] { return static_cast<std::uint8_t>(rng.integer(0, 255)); };
  Move move;
  move.kind = byte();
  move.delay = byte();
  move.who = byte();
  move.size = byte();
  move.extra = byte();
  return move;
}

TEST(PoolPropertyTest, LongRandomHistoriesAgreeWithTheNaivePoolAndDrain) {
  int admitted = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    PoolConfig config = small_config();
    if (seed % 3 == 0) {
      config.limits.c_out = 1'500;
      config.limits.r_out = 150;
    }
    Player player(config, seed % 2 == 0 ? Birth::created_full : Birth::restored_empty);
    for (int i = 0; i < 1'500; ++i) player.play(random_move(rng));
    player.drain();
    ASSERT_EQ(player.difference(), "") << "seed " << seed;
    admitted += player.admitted();
  }
  EXPECT_GT(admitted, 5'000) << "the histories must not be idle ones";
}

RC_GTEST_PROP(PoolPropertyTest, ShortHistoriesAgreeWithTheNaivePool, (bool full)) {
  const auto byte = rc::gen::arbitrary<std::uint8_t>();
  const auto moves = *rc::gen::container<std::vector<Move>>(
      rc::gen::build<Move>(rc::gen::set(&Move::kind, byte), rc::gen::set(&Move::delay, byte),
                           rc::gen::set(&Move::who, byte), rc::gen::set(&Move::size, byte),
                           rc::gen::set(&Move::extra, byte)));
  Player player(small_config(), full ? Birth::created_full : Birth::restored_empty);
  for (const Move& move : moves) player.play(move);
  player.drain();
  RC_ASSERT(player.difference() == "");
}

}  // namespace
}  // namespace hg::gate
