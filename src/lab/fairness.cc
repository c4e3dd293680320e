#include "lab/fairness.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "lab/agents.h"
#include "net/client.h"
#include "net/url.h"

namespace hg::lab {
namespace {

using net::Task;

// The gate's starting kappa, so that estimates are right from the first call on.
constexpr double kBytes = 4.89;

struct Waits {
  std::vector<double> seconds;
  std::int64_t calls = 0;
  std::int64_t refused = 0;
};

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  const auto index = static_cast<std::size_t>(std::max(rank - 1, 0.0));
  return sorted[std::min(index, sorted.size() - 1)];
}

WaitStats stats_of(Waits waits) {
  std::ranges::sort(waits.seconds);
  WaitStats stats;
  stats.calls = waits.calls;
  stats.answered = static_cast<std::int64_t>(waits.seconds.size());
  stats.refused = waits.refused;
  stats.p50_s = percentile(waits.seconds, 0.50);
  stats.p95_s = percentile(waits.seconds, 0.95);
  stats.p99_s = percentile(waits.seconds, 0.99);
  stats.max_s = waits.seconds.empty() ? 0 : waits.seconds.back();
  return stats;
}

// The two streams of arrivals and their calls, while run_fairness waits for them.
class Run {
 public:
  Run(const net::Executor& executor, const Clock& clock, const FairnessConfig& config,
      net::Url base)
      : clock_(clock),
        config_(config),
        base_(std::move(base)),
        client_(executor, clock, net::ClientConfig()),
        idle_(executor),
        group_(executor) {}

  Task<Result<FairnessReport>> play() {
    const double per_kind = config_.load * static_cast<double>(config_.tokens_per_second) / 2;
    const Instant end = clock_.now() + config_.duration;
    open_ = 2;
    group_.spawn("small arrivals", arrivals(config_.small_tokens, per_kind, end, 1));
    group_.spawn("large arrivals", arrivals(config_.large_tokens, per_kind, end, 2));
    (void)co_await idle_.wait_for(config_.duration + config_.drain_within);
    group_.cancel();
    const bool joined = co_await group_.join(10s);
    client_.close_idle();
    if (!joined) co_return fail(Errc::internal, "some calls did not end");
    FairnessReport report;
    report.small = stats_of(std::move(small_));
    report.large = stats_of(std::move(large_));
    co_return report;
  }

 private:
  Task<void> arrivals(Tokens tokens, double tokens_per_second, Instant end, std::uint64_t stream) {
    Rng rng(config_.seed * 7919 + stream);
    const double mean_s = static_cast<double>(tokens) / tokens_per_second;
    Instant at = clock_.now();
    for (std::uint64_t number = 0;; ++number) {
      at = at + Micros(std::llround(rng.exponential(mean_s) * 1e6));
      if (at >= end) break;
      const bool slept = co_await net::sleep_until(clock_, at);
      if (!slept) break;
      ++open_;
      group_.spawn("call", one_call(tokens, stream * 1'000'000 + number));
    }
    left();
  }

  Task<void> one_call(Tokens tokens, std::uint64_t number) {
    Waits& waits = tokens == config_.small_tokens ? small_ : large_;
    ++waits.calls;
    const AgentWire wire = wire_of("claude-code");
    const sim::AgentCall call = call_of(tokens, number);
    const std::string body = request_body(wire, call, kBytes);
    net::RequestHead head("POST", net::join_target(base_.path, "/v1/messages"));
    head.headers.add("Content-Type", "application/json");
    head.headers.add("User-Agent", wire.user_agent);
    head.headers.add(wire.session_header, fmt::format("fairness-{}", number));
    head.headers.add(wire.timeout_header, "600");
    head.headers.add("anthropic-version", "2023-06-01");
    head.headers.add("x-api-key", "sk-emulated");
    head.headers.add("x-emulated-output", "1");

    const Instant asked = clock_.now();
    net::ClientExchange exchange = client_.start(base_);
    const Result<void> sent = co_await exchange.send(head, body);
    bool answered = false;
    if (sent) {
      const Result<net::ResponseHead> answer = co_await exchange.read_head(config_.duration +
                                                                           config_.drain_within);
      answered = answer && answer->status == 200;
    }
    if (answered) {
      waits.seconds.push_back(to_seconds(clock_.now() - asked));
    } else {
      ++waits.refused;
    }
    char chunk[4096];
    for (bool more = answered; more;) {
      const Result<std::size_t> count = co_await exchange.read_some(chunk, 10s);
      more = count && *count > 0;
    }
    left();
  }

  static sim::AgentCall call_of(Tokens tokens, std::uint64_t number) {
    sim::AgentCall call;
    call.prompt_tokens = tokens;
    call.blocks.push_back({number, 100});
    call.blocks.push_back({number + 1, tokens});
    call.output = 1;
    call.max_output = 1;
    call.stream = false;
    return call;
  }

  void left() {
    if (--open_ == 0) idle_.notify();
  }

  const Clock& clock_;
  const FairnessConfig& config_;
  net::Url base_;
  net::Client client_;
  Waits small_;
  Waits large_;
  int open_ = 0;  // Streams of arrivals and calls.
  net::Event idle_;
  net::TaskGroup group_;  // Last: its tasks use the rest.
};

}  // namespace

ProviderConfig fairness_provider(const FairnessConfig& config) {
  ProviderConfig provider;
  provider.seed = config.seed;
  provider.tokens = TokenRule{.bytes_per_token = kBytes, .noise = 0};
  sim::ProviderModel& model = provider.model;
  model.burst_tokens = config.capacity * 3 / 2;
  model.tokens_per_second = static_cast<double>(config.tokens_per_second) * 1.2;
  model.burst_requests = 10'000;
  model.requests_per_second = 1'000;
  model.base = Micros{0};
  model.micros_per_uncached_token = 0;
  model.micros_per_cached_token = 0;
  model.micros_per_output_token = 0;
  model.load_slope = 0;
  model.latency_sigma = 0;
  return provider;
}

net::Task<Result<FairnessReport>> run_fairness(const net::Executor& executor, const Clock& clock,
                                               FairnessConfig config) {
  Result<net::Url> base = net::parse_url(config.base_url);
  if (!base) co_return std::unexpected(base.error());
  Run run(executor, clock, config, std::move(*base));
  Result<FairnessReport> report = co_await run.play();
  co_return report;
}

std::string to_text(const FairnessReport& report) {
  std::string text = fmt::format("{:<8}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "kind",
                                 "calls", "answered", "refused", "p50 s", "p95 s", "p99 s",
                                 "max s");
  const auto row = [&text](std::string_view name, const WaitStats& stats) {
    text += fmt::format("{:<8}{:>8}{:>10}{:>10}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n", name,
                        stats.calls, stats.answered, stats.refused, stats.p50_s, stats.p95_s,
                        stats.p99_s, stats.max_s);
  };
  row("small", report.small);
  row("large", report.large);
  return text;
}

}  // namespace hg::lab
