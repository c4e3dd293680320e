#include "call/conversations.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace hg::call {
namespace {

constexpr double kHitAlpha = 0.2;
// Longer than any harness waits after our retry-after of at most 60 s, with all its jitter.
constexpr Micros kReturnWithin = 600s;
constexpr std::size_t kReturningMax = 16;  // Calls of one conversation that may come back.

// How many blocks, from the start, two prompts share.
std::size_t shared_blocks(const std::vector<wire::PrefixBlock>& left,
                          const std::vector<wire::PrefixBlock>& right) {
  const std::size_t most = std::min(left.size(), right.size());
  std::size_t count = 0;
  while (count < most && left[count].hash == right[count].hash) ++count;
  return count;
}

}  // namespace

std::uint64_t conversation_key(const wire::HarnessProfile& harness, const Headers& request,
                               const wire::RequestFacts& facts) {
  for (const std::string& name : harness.session_headers) {
    const auto value = request.find(name);
    if (value && !trim(*value).empty()) return stable_hash(trim(*value), 1);
  }
  return facts.conversation_hash;
}

Conversations::Conversations(const ConversationLimits& limits) : limits_(limits) {}

Conversations::Arrival Conversations::arrive(std::uint64_t conversation,
                                             const wire::RequestFacts& facts, Micros cache_lifetime,
                                             Instant now) {
  Arrival arrival;
  forget_oldest(now);
  const auto found = by_key_.find(conversation);
  if (found == by_key_.end()) return arrival;
  Conversation& known = touch(conversation, now);

  for (const Prompt& prompt : known.prompts) {
    if (now - prompt.used > cache_lifetime) continue;
    const std::size_t shared = shared_blocks(prompt.blocks, facts.prefix);
    if (shared == 0) continue;
    arrival.shared_chars = std::max(arrival.shared_chars, facts.prefix[shared - 1].chars);
  }
  arrival.shared_chars = std::min(arrival.shared_chars, facts.text_chars);
  arrival.cached_chars = std::llround(static_cast<double>(arrival.shared_chars) * hit_rate_);

  const auto back = std::find_if(
      known.returning.begin(), known.returning.end(), [&](const Returning& call) {
        return call.prompt_hash == facts.prompt_hash && now - call.refused_at <= kReturnWithin;
      });
  if (back != known.returning.end()) {
    arrival.came_back = true;
    arrival.since = back->seniority;
    known.returning.erase(back);
  }
  return arrival;
}

void Conversations::answered(std::uint64_t conversation, const wire::RequestFacts& facts,
                             Tokens shared_tokens, const std::optional<gate::Usage>& usage,
                             Instant now) {
  if (usage && shared_tokens > 0) {
    const double hit = std::clamp(
        static_cast<double>(usage->cached) / static_cast<double>(shared_tokens), 0.0, 1.0);
    hit_rate_ += kHitAlpha * (hit - hit_rate_);
  }
  if (facts.prefix.empty()) return;
  Conversation& known = touch(conversation, now);

  // A prompt that this one extends tells nothing more.
  const auto extended = [&](const Prompt& prompt) {
    return shared_blocks(prompt.blocks, facts.prefix) == prompt.blocks.size();
  };
  for (const Prompt& prompt : known.prompts) {
    if (extended(prompt)) blocks_ -= prompt.blocks.size();
  }
  std::erase_if(known.prompts, extended);
  if (known.prompts.size() >= limits_.prompts) {
    blocks_ -= known.prompts.front().blocks.size();
    known.prompts.erase(known.prompts.begin());
  }
  known.prompts.push_back({facts.prefix, now});
  blocks_ += facts.prefix.size();
  forget_oldest(now);
}

void Conversations::refused(std::uint64_t conversation, std::uint64_t prompt_hash, Micros seniority,
                            Instant now) {
  if (prompt_hash == 0) return;
  Conversation& known = touch(conversation, now);
  if (known.returning.size() >= kReturningMax) known.returning.erase(known.returning.begin());
  known.returning.push_back({prompt_hash, seniority, now});
  forget_oldest(now);
}

Conversations::Conversation& Conversations::touch(std::uint64_t key, Instant now) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    recent_.emplace_back();
    recent_.back().key = key;
    by_key_[key] = std::prev(recent_.end());
  } else {
    recent_.splice(recent_.end(), recent_, found->second);
  }
  recent_.back().used = now;
  return recent_.back();
}

void Conversations::forget(Place place) {
  for (const Prompt& prompt : place->prompts) blocks_ -= prompt.blocks.size();
  by_key_.erase(place->key);
  recent_.erase(place);
}

void Conversations::forget_oldest(Instant now) {
  while (!recent_.empty()) {
    const Place oldest = recent_.begin();
    const bool over = by_key_.size() > limits_.conversations || blocks_ > limits_.blocks;
    if (!over && now - oldest->used <= limits_.age) return;
    forget(oldest);
  }
}

}  // namespace hg::call
