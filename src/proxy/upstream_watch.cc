#include "proxy/upstream_watch.h"

#include <fmt/format.h>

namespace hg::proxy {
namespace {

constexpr Micros kLineEvery = 10s;

}  // namespace

std::optional<std::string> UpstreamWatch::failed(std::string_view upstream, std::string_view detail,
                                                 Instant now) {
  auto found = states_.find(upstream);
  if (found == states_.end()) found = states_.emplace(upstream, State()).first;
  State& state = found->second;
  if (!state.since) {
    state.since = now;
    state.failures = 0;
    state.said = false;
  }
  ++state.failures;
  ++state.unsaid;
  if (state.last_line && now - *state.last_line < kLineEvery) return std::nullopt;
  std::string line = fmt::format("upstream {}: {}", upstream, detail);
  if (state.unsaid > 1) {
    line += fmt::format(" ({} failures since the last line, {:.0f} s ago)", state.unsaid,
                        to_seconds(now - *state.last_line));
  }
  state.unsaid = 0;
  state.said = true;
  state.last_line = now;
  return line;
}

std::optional<std::string> UpstreamWatch::answered(std::string_view upstream, Instant now) {
  if (states_.empty()) return std::nullopt;
  const auto found = states_.find(upstream);
  if (found == states_.end() || !found->second.since) return std::nullopt;
  State& state = found->second;
  const Micros away = now - *state.since;
  state.since.reset();
  if (!state.said) return std::nullopt;
  // What was not said of this outage is in the number below.
  state.unsaid = 0;
  return fmt::format("upstream {} answers again, after {} {} in {:.1f} s", upstream, state.failures,
                     state.failures == 1 ? "failure" : "failures", to_seconds(away));
}

}  // namespace hg::proxy
