// history.h: long random histories of a pool, as data: made, said to both implementations, printed.
//
// A history is concrete (ids, numbers and moments are in its operations), so that any part of it
// can be left out and the rest played again: that is how a difference is shrunk.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gate/pool.h"
#include "gate/script.h"

namespace hg::valkey {

struct Operation {
  enum class Kind : std::uint8_t {
    acquire,
    settle,
    overload,
    leave,
    renew,
    farewell,
    configure,
    restore,
    pause,
    resume,
    step,
  };
  Kind kind = Kind::step;
  Instant now;
  gate::AcquireRequest acquire;
  gate::SettleRequest settle;
  std::string id, shim;  // Of the operations that have nothing else.
  gate::Pool::Leaving why = gate::Pool::Leaving::gone;
  std::vector<gate::LeaseRenewal> leases;
  Micros duration{0};  // Of a pause; the lease_ttl of a renewal.
  gate::PoolConfig config;
  std::int64_t version = 0;  // Expected, or restored.
};

struct History {
  gate::PoolConfig config;
  gate::Birth birth = gate::Birth::created_full;
  Instant start;
  std::vector<Operation> operations;
};

// What a kind of history is made of.
struct Manner {
  const char* name;
  int operations;  // In one history.
  int shims;
  int ids;  // Of each shim that asks anew; 0: each ask is a new call.
  int aliases;
  int look_every;    // How often the whole view is compared.
  int busy_percent;  // Of the operations: asks.
  bool slow_clock;   // Steps of time are small: queues grow.
  int small_part;    // Most calls are smaller than this part of the bucket.
};

// The manners that histories take turns in.
[[nodiscard]] const std::vector<Manner>& manners();

// Makes a history while a pool in memory plays it: what is asked next follows from what it answers.
class Author {
 public:
  Author(const Manner& manner, std::uint64_t seed);

  [[nodiscard]] const History& history() const { return history_; }
  // Appends an operation and answers it; `pool` is the one that has played those before.
  const Operation& next(gate::Pool& pool);
  // What the pool answered to it.
  void heard(const gate::AcquireReply& reply);
  void heard(const gate::Wake& wake) { wake_ = wake; }

 private:
  void pass_time(const gate::Pool& pool);
  void ask(Operation& operation);
  void renew(Operation& operation);
  void configure(Operation& operation, const gate::Pool& pool);
  [[nodiscard]] std::string some_shim();
  [[nodiscard]] std::string some(const std::vector<std::string>& of);
  [[nodiscard]] Tokens some_size();
  [[nodiscard]] bool chance(int percent) { return rng_.integer(1, 100) <= percent; }

  Manner manner_;
  Rng rng_;
  History history_;
  Instant now_;
  gate::Wake wake_;  // The last.
  std::int64_t last_sequence_ = 0;
  std::vector<std::string> held_, waiting_;  // May have ended since.
};

// Says an operation to the script, at its moment.
[[nodiscard]] gate::script::Call call_of(const Operation& operation);

// What a pool in memory answers; `text` is what is compared.
struct Told {
  std::string text;
  std::optional<gate::AcquireReply> acquired;
  std::optional<gate::Wake> wake;
};
[[nodiscard]] Told tell(gate::Pool& pool, const Operation& operation);

// The same text from the script's reply.
[[nodiscard]] std::string answer_of(const gate::script::Value& value, Operation::Kind kind);
[[nodiscard]] std::string text_of(const gate::PoolView& view);

// As a file of tests/vectors, with the answers of the pool in memory.
[[nodiscard]] std::string vector_file(const History& history, const std::string& says);

}  // namespace hg::valkey
