#include "cli/compose.h"

#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "gate/pool.h"
#include "net/url.h"

namespace hg::cli {

namespace {

template <typename Items, typename Name>
std::string names_of(const Items& items, Name name) {
  std::string names;
  for (const auto& item : items) names += (names.empty() ? "" : ", ") + name(item);
  return names.empty() ? "(none)" : names;
}

Result<proxy::Upstream> make_upstream(const UpstreamSettings& settings,
                                      const wire::Profiles& profiles) {
  proxy::Upstream upstream;
  upstream.name = settings.name;
  upstream.profile = settings.profile;
  std::string text = settings.url;
  if (!settings.profile.empty()) {
    const wire::ProviderProfile* profile = profiles.provider(settings.profile);
    if (profile == nullptr) {
      const std::string known = names_of(profiles.providers(),
                                         [](const auto& item) { return item.name; });
      return fail(Errc::invalid,
                  fmt::format("{}: upstream.{}.profile = {} is unknown; allowed are: {}",
                              settings.place_of("profile"), settings.name,
                              escape_controls(settings.profile.substr(0, 80)), known));
    }
    if (text.empty()) text = profile->default_upstream;
  }
  if (text.empty()) {
    return fail(Errc::invalid, fmt::format("{}: upstream.{} needs a url: its profile has none",
                                           settings.place, settings.name));
  }
  auto url = net::parse_url(text);
  if (!url) {
    return fail(Errc::invalid, fmt::format("{}: upstream.{}.url: {}", settings.place_of("url"),
                                           settings.name, url.error().detail));
  }
  upstream.url = *url;
  return upstream;
}

std::vector<proxy::Upstream> public_upstreams(const wire::Profiles& profiles) {
  std::vector<proxy::Upstream> upstreams;
  for (const wire::ProviderProfile& profile : profiles.providers()) {
    if (profile.default_upstream.empty()) continue;
    const auto url = net::parse_url(profile.default_upstream);
    if (!url) continue;
    proxy::Upstream upstream;
    upstream.name = profile.name;
    upstream.url = *url;
    upstream.profile = profile.name;
    upstreams.push_back(std::move(upstream));
  }
  // The first that speaks a dialect gets its calls, and the first of all gets those of no dialect
  // that we read, which are OpenAI's Responses more often than not.
  const auto rank = [](const proxy::Upstream& upstream) {
    return upstream.name == "openai" ? 0 : upstream.name == "anthropic" ? 1 : 2;
  };
  std::sort(upstreams.begin(), upstreams.end(), [&](const auto& left, const auto& right) {
    return std::pair(rank(left), left.name) < std::pair(rank(right), right.name);
  });
  return upstreams;
}

template <typename Value, typename Into>
bool overlay(const std::optional<Value>& value, Into& into) {
  if (value) into = *value;
  return value.has_value();
}

Result<proxy::PoolRule> make_rule(const PoolSettings& settings,
                                  const std::vector<proxy::Upstream>& upstreams,
                                  const wire::Profiles& profiles, const Config& config) {
  proxy::PoolRule rule;
  rule.name = settings.name;
  rule.upstream = settings.upstream;
  rule.family = settings.family == "*" ? "" : settings.family;
  rule.by_path_only = settings.path_only;
  rule.seed_source = config.file.empty() ? "operator (flags)" : "operator (configuration)";
  const proxy::Upstream* upstream = &upstreams.front();
  if (!settings.upstream.empty()) {
    const auto found = std::find_if(upstreams.begin(), upstreams.end(), [&](const auto& item) {
      return item.name == settings.upstream;
    });
    if (found == upstreams.end()) {
      const std::string known = names_of(upstreams, [](const auto& item) { return item.name; });
      return fail(Errc::invalid,
                  fmt::format("{}: pool.{}.upstream = {} is unknown; allowed are: {}",
                              settings.place_of("upstream"), settings.name,
                              escape_controls(settings.upstream.substr(0, 80)), known));
    }
    upstream = &*found;
  }
  const wire::ProviderProfile& profile = profile_of(*upstream, profiles);
  gate::Limits limits = start_limits(profile);
  bool told = overlay(settings.c_burst, limits.c_burst);
  told = overlay(settings.r_tok, limits.r_tok) || told;
  told = overlay(settings.k_inflight, limits.k_inflight) || told;
  told = overlay(settings.c_req, limits.c_req) || told;
  told = overlay(settings.r_qps, limits.r_qps) || told;
  told = overlay(settings.c_out, limits.c_out) || told;
  told = overlay(settings.r_out, limits.r_out) || told;
  if (told) rule.limits = limits;
  gate::Weights weights;
  weights.cached_ppm = profile.weight_cached_ppm;
  weights.output_ppm = profile.weight_output_ppm;
  bool weighed = overlay(settings.cached_weight_ppm, weights.cached_ppm);
  weighed = overlay(settings.output_weight_ppm, weights.output_ppm) || weighed;
  if (weighed) rule.weights = weights;
  rule.priorities.insert(settings.priorities.begin(), settings.priorities.end());

  gate::PoolConfig whole;
  whole.limits = limits;
  whole.seed = limits;
  whole.weights = weights;
  if (auto valid = gate::Pool::validate(whole); !valid) {
    return fail(Errc::invalid, fmt::format("{}: pool.{}: {}", settings.place, settings.name,
                                           valid.error().detail));
  }
  return rule;
}

}  // namespace

const wire::ProviderProfile& profile_of(const proxy::Upstream& upstream,
                                        const wire::Profiles& profiles) {
  const wire::ProviderProfile* named = profiles.provider(upstream.profile);
  return named != nullptr ? *named : profiles.provider_for_host(upstream.url.host);
}

gate::Limits start_limits(const wire::ProviderProfile& profile) {
  gate::Limits limits;
  limits.c_burst = profile.start.c_burst;
  limits.r_tok = profile.start.r_tok;
  limits.k_inflight = profile.start.k_inflight;
  limits.c_req = std::max<std::int64_t>(1, profile.start.c_req / kMicro);
  limits.r_qps = profile.start.r_qps;
  return limits;
}

std::string describe(const gate::Limits& limits) {
  std::string text = fmt::format(
      "{} tokens burst, {} tokens/s, {} in flight, {} requests burst, {:g}/s",
      with_thousands(limits.c_burst), with_thousands(limits.r_tok),
      with_thousands(limits.k_inflight), with_thousands(limits.c_req),
      static_cast<double>(limits.r_qps) / 1e6);
  if (limits.c_out && limits.r_out) {
    text += fmt::format(", output {} burst, {}/s", with_thousands(*limits.c_out),
                        with_thousands(*limits.r_out));
  }
  return text;
}

Result<proxy::ShimConfig> make_shim_config(const Config& config, const wire::Profiles& profiles) {
  proxy::ShimConfig shim;
  for (const UpstreamSettings& settings : config.upstreams) {
    auto upstream = make_upstream(settings, profiles);
    if (!upstream) return std::unexpected(upstream.error());
    shim.upstreams.push_back(std::move(*upstream));
  }
  if (shim.upstreams.empty()) shim.upstreams = public_upstreams(profiles);
  if (!config.default_upstream.empty()) {
    const auto found = std::find_if(
        shim.upstreams.begin(), shim.upstreams.end(),
        [&](const auto& upstream) { return upstream.name == config.default_upstream; });
    if (found == shim.upstreams.end()) {
      const std::string known = names_of(shim.upstreams,
                                         [](const auto& upstream) { return upstream.name; });
      return fail(Errc::invalid,
                  fmt::format("{}: default_upstream = {} is unknown; allowed are a URL and: {}",
                              config.place_of("default_upstream"),
                              escape_controls(config.default_upstream.substr(0, 80)), known));
    }
    std::rotate(shim.upstreams.begin(), found, found + 1);
    shim.default_upstream = config.default_upstream;
  }
  for (const PoolSettings& settings : config.pools) {
    auto rule = make_rule(settings, shim.upstreams, profiles, config);
    if (!rule) return std::unexpected(rule.error());
    shim.pools.push_back(std::move(*rule));
  }
  std::string_view names = config.host_names;
  while (!names.empty()) {
    const auto comma = std::min(names.find(','), names.size());
    if (const auto name = trim(names.substr(0, comma)); !name.empty()) {
      shim.own_names.emplace_back(name);
    }
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  shim.body_bytes_max = static_cast<std::size_t>(config.body_limit);
  shim.first_byte_within = config.first_byte_within;
  shim.silence = config.silence;
  shim.patience.hold_max = config.hold_cap_max;
  shim.patience.quota_pause = config.quota_pause;
  shim.overload_step = config.overload_step;
  shim.outage_max = config.outage_max;
  shim.queue_max = static_cast<std::size_t>(config.queue_max);
  shim.hold_cap = config.hold_cap;
  return shim;
}

Result<wire::Profiles> load_profiles(const std::string& directory) {
  if (directory.empty()) return wire::Profiles::built_in();
  DIR* folder = ::opendir(directory.c_str());
  if (folder == nullptr) {
    return fail(Errc::invalid, fmt::format("profiles_dir {}: {}", directory, std::strerror(errno)));
  }
  std::map<std::string, std::string> texts;  // Sorted, so that the order is always the same.
  for (const dirent* entry = ::readdir(folder); entry != nullptr; entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (!name.ends_with(".toml")) continue;
    const std::string path = directory + "/" + name;
    std::ifstream stream(path, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    if (!stream) {
      ::closedir(folder);
      return fail(Errc::invalid, fmt::format("{}: cannot read it", path));
    }
    texts[path] = text.str();
  }
  ::closedir(folder);
  std::vector<wire::ProfileText> files;
  files.reserve(texts.size());
  for (const auto& [path, text] : texts) files.push_back({path, text});
  return wire::Profiles::load(files);
}

std::string fingerprint(const Config& config) {
  std::string text = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {}", config.hold_cap_max.count(), config.outage_max.count(),
      config.queue_max, config.hold_cap.value_or(Micros(-1)).count(),
      config.overload_step.value_or(Micros(-1)).count(), config.first_byte_within.count(),
      config.silence.count(), config.quota_pause.count(), config.body_limit, config.ca_file,
      config.profiles_dir);
  const auto number = [](const std::optional<std::int64_t>& value) { return value.value_or(-1); };
  for (const PoolSettings& pool : config.pools) {
    text += fmt::format("\n{} {} {} {} {} {} {} {} {} {} {} {} {}", pool.name, pool.upstream,
                        pool.family, pool.path_only, number(pool.c_burst), number(pool.r_tok),
                        number(pool.k_inflight), number(pool.c_req), number(pool.r_qps),
                        number(pool.c_out), number(pool.r_out), number(pool.cached_weight_ppm),
                        number(pool.output_weight_ppm));
    for (const auto& [harness, head_start] : pool.priorities) {
      text += fmt::format(" {}={}", harness, head_start.count());
    }
  }
  return fmt::format("{:016x}", stable_hash(text));
}

}  // namespace hg::cli
