#include "sim/model_provider.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/assert.h"

namespace hg::sim {
namespace {

// The rate is taken as constant over this long, so that steps and drift are followed closely.
constexpr Micros kRateStep = 100ms;
// Expired blocks are swept out when the cache holds this many.
constexpr std::size_t kCacheSweep = 200'000;
// A refusal costs the provider next to nothing.
constexpr Micros kRefusalDelay = 60ms;

Micros micros(double count) { return Micros(std::llround(std::max(count, 0.0))); }

}  // namespace

double RatePlan::factor(Micros since_start) const {
  double result = 1.0;
  for (const Step& step : steps) {
    if (step.at <= since_start) result = step.factor;
  }
  if (drift_amplitude != 0) {
    const double phase = to_seconds(since_start) / to_seconds(drift_period);
    result *= 1.0 + drift_amplitude * std::sin(2.0 * std::numbers::pi * phase);
  }
  return std::max(result, 0.0);
}

const char* to_string(ProviderError error) {
  switch (error) {
    case ProviderError::none: return "none";
    case ProviderError::rate_limit_tokens: return "rate_limit_tokens";
    case ProviderError::rate_limit_requests: return "rate_limit_requests";
    case ProviderError::overloaded: return "overloaded";
    case ProviderError::unavailable: return "unavailable";
    case ProviderError::quota: return "quota";
  }
  return "?";
}

Micros ProviderVerdict::duration() const {
  if (kind != Kind::accept) return first_byte;
  return first_byte + per_output_token * cut_after_output.value_or(output);
}

std::int64_t ProviderBooks::refused() const {
  return refused_tokens_limit + refused_requests_limit + refused_stray + refused_overloaded +
         refused_unavailable + refused_quota;
}

ModelProvider::ModelProvider(const ProviderModel& model, std::uint64_t seed, Instant start)
    : model_(model),
      rng_(seed),
      tenants_rng_(rng_.fork()),
      start_(start),
      at_(start),
      tokens_(static_cast<double>(model.burst_tokens)),
      requests_(model.burst_requests),
      rate_factor_(model.plan.factor(Micros{0})),
      next_tenant_(start) {
  HG_ASSERT(model.burst_tokens > 0 && model.tokens_per_second > 0);
  HG_ASSERT(model.burst_requests >= 1 && model.requests_per_second > 0);
  if (model_.tenants.tokens_per_second > 0) next_tenant_ = start + tenant_gap();
}

ProviderVerdict ModelProvider::decide(const ProviderRequest& request, Instant now) {
  advance(now);
  ++books_.calls;
  const Tokens cached = cached_prefix(request.blocks, request.prompt_tokens, now);
  const Tokens uncached = request.prompt_tokens - cached;
  const Tokens reserved = model_.reserves_max_output ? request.max_output.value_or(0) : 0;
  const double charge = weighted(uncached, cached, reserved);
  const Mishaps& mishaps = model_.mishaps;

  // One draw for each mishap whatever happens: histories of different limits stay comparable.
  const bool drops = rng_.chance(mishaps.drop_before_answer);
  const bool unavailable = rng_.chance(mishaps.unavailable);
  const bool overloaded = rng_.chance(mishaps.overloaded);
  const bool stray = rng_.chance(mishaps.stray_rate_limit);
  const bool in_stream = rng_.chance(mishaps.error_in_stream);
  const bool cuts = rng_.chance(mishaps.drop_in_answer);
  const double cut_at = rng_.uniform();
  const double spread = rng_.log_normal(0, model_.latency_sigma);
  const double drawn_output = rng_.log_normal(std::log(model_.output_median), model_.output_sigma);

  if (model_.quota && books_.accepted_tokens >= *model_.quota) return refuse(ProviderError::quota);
  if (drops) {
    ++books_.dropped;
    ProviderVerdict verdict;
    verdict.kind = ProviderVerdict::Kind::drop;
    verdict.status = 0;
    verdict.first_byte = kRefusalDelay;
    return verdict;
  }
  if (unavailable) return refuse(ProviderError::unavailable);
  const bool too_much_at_once = model_.max_inflight && inflight_ > 0 &&
                                inflight_ + request.prompt_tokens > *model_.max_inflight;
  if (overloaded || too_much_at_once) {
    ProviderVerdict verdict = refuse(ProviderError::overloaded);
    if (request.stream && in_stream) {
      ++books_.refused_in_stream;
      verdict.kind = ProviderVerdict::Kind::refuse_in_stream;
      verdict.status = 200;
    }
    return verdict;
  }

  // A call larger than the bucket passes against a full one, and leaves a debt.
  const double needed = std::min(charge, static_cast<double>(model_.burst_tokens));
  const bool tokens_lack = tokens_ < needed;
  const bool requests_lack = requests_ < 1.0;
  if (stray || tokens_lack || requests_lack) {
    ProviderVerdict verdict = refuse(requests_lack && !tokens_lack
                                         ? ProviderError::rate_limit_requests
                                         : ProviderError::rate_limit_tokens);
    if (!tokens_lack && !requests_lack) {
      --books_.refused_tokens_limit;
      ++books_.refused_stray;
    }
    if (model_.refused_calls_count) {
      tokens_ -= charge;
      requests_ = std::max(requests_ - 1.0, 0.0);
    }
    const double wait_tokens = (needed - tokens_) / token_rate();
    const double wait_requests = (1.0 - requests_) / request_rate();
    hint(verdict, std::max({wait_tokens, wait_requests, 0.0}));
    return verdict;
  }

  tokens_ -= charge;
  requests_ -= 1.0;
  remember(request.blocks, now);

  ProviderVerdict verdict;
  verdict.id = ++last_id_;
  verdict.uncached = uncached;
  verdict.cached = cached;
  verdict.output = request.output_planned
                       ? *request.output_planned
                       : std::max<Tokens>(static_cast<Tokens>(std::llround(drawn_output)), 1);
  if (request.max_output) verdict.output = std::min(verdict.output, *request.max_output);
  const double load = 1.0 + model_.load_slope * static_cast<double>(inflight_) /
                                static_cast<double>(std::max<Tokens>(model_.load_knee, 1));
  const double work = static_cast<double>(model_.base.count()) +
                      static_cast<double>(uncached) * model_.micros_per_uncached_token +
                      static_cast<double>(cached) * model_.micros_per_cached_token;
  verdict.first_byte = micros(work * load * spread);
  verdict.per_output_token = micros(model_.micros_per_output_token * load * spread);
  if (cuts && verdict.output > 1) {
    verdict.cut_after_output = 1 + static_cast<Tokens>(cut_at *
                                                       static_cast<double>(verdict.output - 1));
  }
  if (model_.rate_headers) verdict.rate = rate_state();

  ++books_.accepted;
  books_.accepted_prompt += request.prompt_tokens;
  books_.cached_tokens += cached;
  accepted_ += charge;
  inflight_ += request.prompt_tokens;
  open_[verdict.id] = {request.prompt_tokens, reserved};
  books_.accepted_tokens = static_cast<Tokens>(std::floor(accepted_));
  return verdict;
}

void ModelProvider::finished(std::uint64_t id, Tokens output, Instant now) {
  advance(now);
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  const Open open = found->second;
  open_.erase(found);
  inflight_ -= open.prompt;
  books_.accepted_output += output;
  // The reservation is replaced by what was produced.
  const double change = weighted(0, 0, output - open.reserved_output);
  tokens_ = std::min(tokens_ - change, static_cast<double>(model_.burst_tokens));
  accepted_ += change;
  books_.accepted_tokens = static_cast<Tokens>(std::floor(accepted_));
}

void ModelProvider::count_cut() { ++books_.dropped; }

void ModelProvider::scale(double factor, Instant now) {
  HG_ASSERT(factor > 0);
  advance(now);
  manual_factor_ = factor;
}

double ModelProvider::tokens_level(Instant now) {
  advance(now);
  return tokens_;
}

double ModelProvider::offered_tokens(Instant now) {
  advance(now);
  return static_cast<double>(model_.burst_tokens) + refilled_ -
         static_cast<double>(books_.tenant_tokens);
}

double ModelProvider::limit_used(Instant now) {
  const double offered = offered_tokens(now);
  return offered > 0 ? accepted_ / offered : 0;
}

void ModelProvider::advance(Instant now) {
  HG_ASSERT(now >= at_);
  while (at_ < now) {
    const bool moves = !model_.plan.steps.empty() || model_.plan.drift_amplitude != 0;
    Instant until = moves ? std::min(now, at_ + kRateStep) : now;
    const bool tenant_comes = model_.tenants.tokens_per_second > 0 && next_tenant_ <= until;
    if (tenant_comes) until = std::max(next_tenant_, at_);
    const double seconds = to_seconds(until - at_);
    rate_factor_ = model_.plan.factor(at_ - start_);
    const double refill = seconds * token_rate();
    refilled_ += refill;
    tokens_ = std::min(tokens_ + refill, static_cast<double>(model_.burst_tokens));
    requests_ = std::min(requests_ + seconds * request_rate(), model_.burst_requests);
    at_ = until;
    if (tenant_comes) {
      const Tokens wanted = model_.tenants.tokens_per_call;
      if (tokens_ >= static_cast<double>(wanted)) {
        tokens_ -= static_cast<double>(wanted);
        books_.tenant_tokens += wanted;
      }
      next_tenant_ = next_tenant_ + tenant_gap();
    }
  }
}

Micros ModelProvider::tenant_gap() {
  const double mean = static_cast<double>(model_.tenants.tokens_per_call) /
                      model_.tenants.tokens_per_second;
  return std::max(micros(tenants_rng_.exponential(mean) * 1e6), Micros{1});
}

double ModelProvider::token_rate() const {
  return std::max(model_.tokens_per_second * rate_factor_ * manual_factor_, 1e-3);
}

double ModelProvider::request_rate() const {
  return std::max(model_.requests_per_second * rate_factor_ * manual_factor_, 1e-3);
}

Tokens ModelProvider::cached_prefix(const std::vector<PromptBlock>& blocks, Tokens prompt,
                                    Instant now) const {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (block->tokens < model_.cache_minimum) break;
    const auto found = cache_.find(block->hash);
    if (found != cache_.end() && found->second > now) return std::min(block->tokens, prompt);
  }
  return 0;
}

void ModelProvider::remember(const std::vector<PromptBlock>& blocks, Instant now) {
  if (cache_.size() > kCacheSweep) {
    std::erase_if(cache_, [&](const auto& entry) { return entry.second <= now; });
  }
  for (const PromptBlock& block : blocks) {
    if (block.tokens >= model_.cache_minimum) cache_[block.hash] = now + model_.cache_lifetime;
  }
}

RateState ModelProvider::rate_state() const {
  const auto burst = static_cast<double>(model_.burst_tokens);
  RateState state;
  state.tokens_limit = std::llround(token_rate() * 60);
  state.tokens_left = static_cast<Tokens>(std::max(std::floor(tokens_), 0.0));
  state.tokens_reset = micros((burst - tokens_) / token_rate() * 1e6);
  state.requests_limit = std::llround(request_rate() * 60);
  state.requests_left = static_cast<std::int64_t>(std::max(std::floor(requests_), 0.0));
  state.requests_reset = micros((model_.burst_requests - requests_) / request_rate() * 1e6);
  return state;
}

double ModelProvider::weighted(Tokens uncached, Tokens cached, Tokens output) const {
  return static_cast<double>(uncached) +
         static_cast<double>(cached) * static_cast<double>(model_.cached_ppm) / 1e6 +
         static_cast<double>(output) * static_cast<double>(model_.output_ppm) / 1e6;
}

void ModelProvider::hint(ProviderVerdict& verdict, double seconds) const {
  if (model_.hint == ProviderModel::Hint::none) return;
  verdict.retry_after = Micros{std::max<std::int64_t>(std::llround(std::ceil(seconds)), 1) *
                               kMicro};
  if (model_.hint == ProviderModel::Hint::milliseconds) {
    verdict.retry_after_ms = Micros{std::max<std::int64_t>(std::llround(seconds * 1e3), 1) * 1000};
  }
}

ProviderVerdict ModelProvider::refuse(ProviderError error) {
  ProviderVerdict verdict;
  verdict.kind = ProviderVerdict::Kind::refuse;
  verdict.error = error;
  verdict.first_byte = kRefusalDelay;
  if (model_.rate_headers) verdict.rate = rate_state();
  switch (error) {
    case ProviderError::rate_limit_tokens:
      verdict.status = 429;
      ++books_.refused_tokens_limit;
      break;
    case ProviderError::rate_limit_requests:
      verdict.status = 429;
      ++books_.refused_requests_limit;
      break;
    case ProviderError::overloaded:
      verdict.status = 529;
      ++books_.refused_overloaded;
      break;
    case ProviderError::unavailable:
      verdict.status = 503;
      ++books_.refused_unavailable;
      break;
    case ProviderError::quota:
      verdict.status = 429;
      ++books_.refused_quota;
      break;
    case ProviderError::none: HG_ASSERT(false);
  }
  return verdict;
}

}  // namespace hg::sim
