// script.h: what is said to gate.lua and how its answers are read: the codec of a pool that lives
// in a store with Lua.
//
// Knows the script's keys, arguments and replies (docs/protocol.md), and no connection: whoever has
// one sends EVALSHA with text()'s digest, the pool's keys and a call's arguments (and EVAL with the
// text itself on NOSCRIPT, once), and hands the reply back as a Value. Pure; any thread; every
// function is total: a reply that makes no sense is Errc::protocol.
//
// Replaying a call whose reply was lost changes nothing more: acquire, settle, overload, leave and
// renew are idempotent by their ids, and the rest by version or by nature.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "gate/pool.h"
#include "gate/types.h"

namespace hg::gate::script {

// The script comes in two texts that differ in their first line, the flags. When the store's memory
// is out, it refuses the taking one before its first write (an error that begins with OOM) and lets
// the releasing one run, which gives back more than it takes.
enum class Text : std::uint8_t { taking, releasing };
[[nodiscard]] std::string_view text(Text which);

// Where a pool lives: names of the keys, in the script's order, and of the wake channels. All carry
// the pool's name as hash tag, so that a cluster keeps them in one slot; characters of the name
// that would disturb the tag are written %XX.
class PoolKeys {
 public:
  explicit PoolKeys(std::string_view pool);
  [[nodiscard]] const std::vector<std::string>& all() const { return keys_; }
  // On which the wakes of one shim are published (PUBLISH, not SPUBLISH).
  [[nodiscard]] std::string wake_channel(std::string_view shim) const {
    return wake_ + std::string(shim);
  }

 private:
  std::vector<std::string> keys_;
  std::string wake_;
};

// One call of the script: which text, and ARGV. KEYS are PoolKeys::all().
struct Call {
  Text text = Text::taking;
  std::vector<std::string> args;
};

// The operations of gate/pool.h. Ids and shims must not be empty (the script answers HGARG).
[[nodiscard]] Call acquire(const AcquireRequest& request);
[[nodiscard]] Call settle(const SettleRequest& request);
[[nodiscard]] Call overload(std::string_view id);
[[nodiscard]] Call leave(std::string_view id, Pool::Leaving why);
// Leases past the first kRenewMax are not sent.
[[nodiscard]] Call renew(std::string_view shim, std::span<const LeaseRenewal> leases,
                         Micros lease_ttl);
[[nodiscard]] Call farewell(std::string_view shim);
[[nodiscard]] Call pause(Micros duration);
[[nodiscard]] Call resume();
[[nodiscard]] Call step();
[[nodiscard]] Call view();
[[nodiscard]] Call summary();  // As view, without the lists: O(1).

// Makes a pool that is not there (or of which a part was lost), full.
[[nodiscard]] Call create(const PoolConfig& config);
[[nodiscard]] Call configure(std::int64_t expected_version, const PoolConfig& config);
// Makes a pool that is not there, empty, with an epoch above `last_epoch` (the last that was seen;
// 0: none); or takes the configuration if `version` is higher than the present one.
[[nodiscard]] Call restore(std::int64_t version, const PoolConfig& config,
                           std::uint64_t last_epoch = 0);

// For tests alone: the call happens at `now`. A pool that was created so takes no other calls, and
// no other pool takes these.
void set_now(Call& call, Instant now);

// A reply of the server, in the kinds that RESP2 has. Status replies are `text`.
struct Value {
  enum class Kind : std::uint8_t { nothing, integer, text, error, list };
  Kind kind = Kind::nothing;
  std::int64_t integer = 0;
  std::string text;  // Of text and error.
  std::vector<Value> items;
};

// Told to whoever waits: the same in a reply and in a message.
struct WakeNote {
  std::string id;    // Empty: all waiters of the shim that hears it (the pool was paused).
  std::string shim;  // Empty in a message: the channel names it.
  Instant at;        // The moment on the store's clock.
  Micros in{0};      // From the step to that moment, >= 0: what a shim, with its own clock, needs.
};

// What every answer says beside its own. The wake is the one that was published at this step, if
// any; a shim that hears its channel need not look at it.
struct Notes {
  std::int64_t version = 0;      // Of the configuration: summary() again when it changes.
  std::int64_t kappa_micro = 0;  // Characters per token, millionths.
  std::uint64_t epoch = 0;       // Rises whenever the pool was away or rebuilt.
  std::optional<WakeNote> wake;
};

template <typename T>  // A template because each operation answers something else.
struct Answer {
  T reply{};
  Notes notes;
};

struct Summary {
  PoolConfig config;
  std::int64_t version = 0;
  std::int64_t kappa_micro = 0;
  std::uint64_t epoch = 0;
};

struct PauseReply {
  Instant at;  // On the store's clock: before it nobody passes.
  Micros in{0};
};

// Errors of all: not_found (NOPOOL: create or restore it), invalid (the arguments), unavailable
// (the store's own: out of memory, read-only, ...; the detail is its text), protocol. An acquire
// without a pool is not an error: Verdict::no_pool, with empty notes.
[[nodiscard]] Result<Answer<AcquireReply>> read_acquire(const Value& value);
[[nodiscard]] Result<Answer<RenewReply>> read_renew(const Value& value);
// Of settle, overload and leave: as Pool's; restore: whether it took place; farewell, resume and
// step: true.
[[nodiscard]] Result<Answer<bool>> read_done(const Value& value);
// Of create: conflict if it is there. Of configure: the new version; conflict.
[[nodiscard]] Result<Answer<bool>> read_create(const Value& value);
[[nodiscard]] Result<Answer<std::int64_t>> read_configure(const Value& value);
[[nodiscard]] Result<Answer<PauseReply>> read_pause(const Value& value);
[[nodiscard]] Result<PoolView> read_view(const Value& value);
[[nodiscard]] Result<Summary> read_summary(const Value& value);

// The payload of a message on a wake channel.
[[nodiscard]] Result<WakeNote> read_wake(std::string_view message);

}  // namespace hg::gate::script
