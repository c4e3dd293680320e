// conversations.h: what a shim remembers of the conversations of one pool: which prompts the
// provider has probably cached, and which calls come back after our own 429.
//
// Bounded: the least recently used conversation is forgotten when there are too many, or too many
// blocks, and every one that was silent for too long. Pure; holds hashes and numbers, no text.
// Thread-safety: none. One object a pool, as cache and seniority are a pool's.
#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/headers.h"
#include "base/time.h"
#include "base/units.h"
#include "gate/types.h"
#include "wire/dialect.h"
#include "wire/profiles.h"

namespace hg::call {

// A conversation's name: of the harness' session field if the request has one, else of system and
// first user message.
[[nodiscard]] std::uint64_t conversation_key(const wire::HarnessProfile& harness,
                                             const Headers& request,
                                             const wire::RequestFacts& facts);

struct ConversationLimits {
  std::size_t conversations = 8'192;
  std::size_t blocks = 1'000'000;  // Of all prompts together, 16 bytes each.
  std::size_t prompts = 6;         // Of one conversation: sub-agents and titles share its name.
  Micros age{3'600'000'000};
};

class Conversations {
 public:
  explicit Conversations(const ConversationLimits& limits = {});

  struct Arrival {
    std::int64_t shared_chars = 0;  // With an earlier prompt still in the provider's cache.
    std::int64_t cached_chars = 0;  // The same, weighted by the hit rate: for the estimate.
    Micros since{0};                // Seniority, when the call came back after our own 429.
    bool came_back = false;
  };

  // A call arrives. Its seniority is given once: a second call with the same prompt gets none.
  Arrival arrive(std::uint64_t conversation, const wire::RequestFacts& facts, Micros cache_lifetime,
                 Instant now);

  // A call was answered: the provider has its prompt now. Teaches the hit rate, if usage tells
  // what came from the cache and something was expected (`shared_tokens`: the estimate of
  // Arrival::shared_chars at the pool's kappa).
  void answered(std::uint64_t conversation, const wire::RequestFacts& facts, Tokens shared_tokens,
                const std::optional<gate::Usage>& usage, Instant now);

  // We refused a call ourselves; `seniority` is what its return may claim (Record::seniority), kept
  // for ten minutes. A prompt of hash 0 was never read: nobody's, so it is not kept.
  void refused(std::uint64_t conversation, std::uint64_t prompt_hash, Micros seniority,
               Instant now);

  // Cached tokens reported / shared tokens predicted: an exponentially weighted mean, alpha = 0.2,
  // of values in 0..1. Starts at 0: what was never seen to hit is charged in full.
  [[nodiscard]] double hit_rate() const { return hit_rate_; }
  [[nodiscard]] std::size_t size() const { return by_key_.size(); }
  [[nodiscard]] std::size_t blocks() const { return blocks_; }

 private:
  struct Prompt {
    std::vector<wire::PrefixBlock> blocks;
    Instant used;
  };
  struct Returning {
    std::uint64_t prompt_hash = 0;
    Micros seniority{0};
    Instant refused_at;
  };
  struct Conversation {
    std::uint64_t key = 0;
    std::vector<Prompt> prompts;  // Newest last.
    std::vector<Returning> returning;
    Instant used;
  };
  using Place = std::list<Conversation>::iterator;

  Conversation& touch(std::uint64_t key, Instant now);
  void forget(Place place);
  void forget_oldest(Instant now);

  ConversationLimits limits_;
  std::list<Conversation> recent_;  // Least recently used first.
  std::unordered_map<std::uint64_t, Place> by_key_;
  std::size_t blocks_ = 0;  // Of all prompts.
  double hit_rate_ = 0;
};

}  // namespace hg::call
