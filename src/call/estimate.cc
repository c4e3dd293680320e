#include "call/estimate.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "gate/pool.h"

namespace hg::call {
namespace {

constexpr double kOutputAlpha = 0.05;
// Before any answer was seen.
constexpr Micros kFirstStream = 10s;
constexpr Micros kFirstWhole = 30s;
// An answer that takes longer leaves no time to be held for anyway.
constexpr Micros kAnswerMax = 3600s;
// Between the end of the expected answer and the client's limit.
constexpr Micros kAnswerMargin = 5s;
// Nobody is held for less: a limit too short for any hold still lets a free gate answer.
constexpr Micros kHoldMin = 1s;
// Node's fetch gives up after 300 s without headers or between pieces, whatever its caller says.
constexpr Micros kUsualStackLimit = 300s;
// Beyond what any client announces in earnest; keeps the arithmetic far from overflow.
constexpr std::int64_t kAnnouncedMaxSeconds = 86'400;

Tokens tokens_of(std::int64_t chars, std::int64_t kappa_micro) {
  // As double: characters x 10^6 would overflow for absurd sizes, and a token more or less is
  // nothing here.
  return static_cast<Tokens>(
      std::ceil(static_cast<double>(chars) * 1e6 / static_cast<double>(kappa_micro)));
}

// The limit that the request names, but no more than what is known of the program underneath: a
// stack that gives up by itself does so whatever was announced above it.
std::optional<Micros> announced_limit(const wire::HarnessProfile& harness, const Headers& request) {
  if (harness.timeout_header.empty()) return std::nullopt;
  const auto value = request.find(harness.timeout_header);
  if (!value) return std::nullopt;
  const auto seconds = parse_integer(trim(*value));
  if (!seconds || *seconds <= 0) return std::nullopt;
  const Micros announced{std::min(*seconds, kAnnouncedMaxSeconds) * kMicro};
  return std::min(announced, harness.header_timeout.value_or(kUsualStackLimit));
}

}  // namespace

Estimate estimate_call(const wire::RequestFacts& facts, const PoolFacts& pool,
                       const wire::ProviderProfile& provider, const Outlook& outlook) {
  Estimate result;
  const std::int64_t kappa = std::max<std::int64_t>(pool.kappa_micro, 1);
  result.estimate = std::max<Tokens>(tokens_of(facts.text_chars, kappa) + facts.flat_tokens,
                                     Tokens{1});
  result.cached = std::min(tokens_of(std::max<std::int64_t>(outlook.cached_chars, 0), kappa),
                           result.estimate);

  const bool reserved = provider.reserves_max_output && facts.max_output.has_value();
  Tokens output = reserved ? *facts.max_output : outlook.expected_output;
  if (facts.max_output) output = std::min(output, *facts.max_output);
  output = std::max<Tokens>(output, 0);

  gate::Usage usage;
  usage.uncached = result.estimate - result.cached;
  usage.cached = result.cached;
  const Tokens prompt_charge = gate::charge_of(usage, pool.weights);
  usage.output = output;
  result.charge = gate::charge_of(usage, pool.weights);
  if (!reserved) {
    if (pool.c_burst > 0) {
      result.charge = std::min(result.charge, std::max(prompt_charge, pool.c_burst));
    }
    if (pool.c_out) output = std::min(output, *pool.c_out);
  }
  result.output = output;
  return result;
}

void fill_demand(Demand& demand, const Estimate& estimate, const wire::RequestFacts& facts,
                 const PoolFacts& pool, const wire::ProviderProfile& provider) {
  demand.estimate = estimate.estimate;
  demand.charge = estimate.charge;
  demand.output = estimate.output;
  const bool is_text = facts.text_counted && facts.flat_tokens <= estimate.estimate / 2;
  demand.text_chars = is_text ? facts.text_chars : 0;
  demand.flat_tokens = facts.flat_tokens;
  demand.weights = pool.weights;
  demand.refused_calls_count = provider.refused_calls_count;
}

void OutputGuess::observe(Tokens output) {
  mean_ += kOutputAlpha * (static_cast<double>(output) - mean_);
}

Tokens OutputGuess::expected() const { return static_cast<Tokens>(std::llround(mean_)); }

void AnswerTime::observe(bool stream, Micros took) {
  Kind& kind = stream ? streams_ : whole_;
  took = std::clamp(took, Micros{0}, kAnswerMax);
  if (!kind.seen) {
    kind.mean = took;
    kind.deviation = took / 2;
    kind.seen = true;
    return;
  }
  const Micros off = took - kind.mean;
  kind.deviation += (std::chrono::abs(off) - kind.deviation) / 4;
  kind.mean += off / 8;
}

Micros AnswerTime::expected(bool stream) const {
  const Kind& kind = stream ? streams_ : whole_;
  if (!kind.seen) return stream ? kFirstStream : kFirstWhole;
  return std::min(kind.mean + 2 * kind.deviation, kAnswerMax);
}

Patience patience_for(const wire::HarnessProfile& harness, const Headers& request,
                      Micros expected_answer, const PatienceLimits& limits) {
  const std::optional<Micros> announced = announced_limit(harness, request);
  const std::optional<Micros> limit = announced ? announced : harness.header_timeout;

  Micros hold = announced ? *announced : harness.hold_cap;
  if (limit) hold = std::min(hold, *limit - expected_answer - kAnswerMargin);
  hold = std::max(std::min(hold, limits.hold_max), kHoldMin);

  Patience patience;
  patience.hold_cap = hold;
  patience.header_limit = limit;
  patience.lease_ttl = limits.lease_ttl;
  patience.quota_pause = limits.quota_pause;
  return patience;
}

}  // namespace hg::call
