#include "cli/config.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/text.h"
#include "cli/config_values.h"
#include "gate/limits.h"

namespace hg::cli {

namespace {

// The ranges are the gate's own; the texts below say the same numbers.
using gate::kRequestRateMax;
using gate::kRequestsMax;
using gate::kTokensMax;
using gate::kWeightMaxPpm;
static_assert(kTokensMax == 1'000'000'000 && kRequestsMax == 1'000'000);
static_assert(kRequestRateMax == 8'000 * kMicro && kWeightMaxPpm == 20 * kMicro);
constexpr Micros kDay{86'400'000'000};

enum class Scope : std::uint8_t { top, upstream, pool };

// What a key writes to: the parts that its scope has.
struct Target {
  Config* config = nullptr;
  UpstreamSettings* upstream = nullptr;
  PoolSettings* pool = nullptr;
  std::string sub;  // The harness, for pool.NAME.priorities.HARNESS.
};

// Whether an error may repeat the value; a URL may hold a key by mistake.
enum class Echo : std::uint8_t { yes, no };

struct Key {
  Scope scope;
  std::string_view name;
  std::string_view allowed;
  std::string_view default_text;
  std::string_view help;
  bool (*set)(Target&, const Raw&);
  Echo echo = Echo::yes;
};

constexpr std::string_view kTokens = "a whole number of tokens, 1 to 1,000,000,000";
constexpr std::string_view kRate = "a whole number of tokens a second, 1 to 1,000,000,000";
constexpr std::string_view kWeight = "a number from 0 to 20";
constexpr std::string_view kFile = "a file name";
constexpr std::int64_t kQueueMax = 1'000'000;
constexpr std::string_view kByProfile = "by profile";

// The one table. Order is that of the reference.
const Key kKeys[] = {
    {Scope::top, "listen", "[HOST:]PORT, port 0 to 65535 (0: any free one)", "127.0.0.1:4290",
     "where agents connect; anything but loopback is warned of",
     [](Target& to, const Raw& raw) {
       const auto text = raw.type == Raw::Type::other ? std::nullopt : parse_listen(raw.text);
       if (text) std::tie(to.config->listen_host, to.config->listen_port) = *text;
       return text.has_value();
     }},
    {Scope::top, "host_names", "host names, separated by commas", "this machine's",
     "names under which agents reach a listener that is not on loopback",
     [](Target& to, const Raw& raw) { return put(read_text(raw), to.config->host_names); }},
    {Scope::top, "default_upstream", "the name of an upstream", "by dialect",
     "the upstream of every call; without it a call goes to the first upstream that speaks its "
     "dialect",
     [](Target& to, const Raw& raw) { return put(read_text(raw), to.config->default_upstream); }},
    {Scope::top, "hold_cap", "a duration from 1s to 1h", "by harness",
     "how long a call is held before it is sent away with a 429, whatever its program stands",
     [](Target& to, const Raw& raw) {
       return put(read_duration(raw, 1s, 1h), to.config->hold_cap);
     }},
    {Scope::top, "hold_cap_max", "a duration from 1s to 1h", "240s",
     "no call is held longer, whatever its program stands",
     [](Target& to, const Raw& raw) {
       return put(read_duration(raw, 1s, 1h), to.config->hold_cap_max);
     }},
    {Scope::top, "overload_step", "a duration from 1ms to 1h", "30s",
     "after the n-th overload in a row a call waits n times this",
     [](Target& to, const Raw& raw) {
       return put(read_duration(raw, 1ms, 1h), to.config->overload_step);
     }},
    {Scope::top, "outage_max", "a duration from 0s to 1h", "20s",
     "how long a provider that cannot be reached is waited for, within the hold",
     [](Target& to, const Raw& raw) {
       return put(read_duration(raw, 0s, 1h), to.config->outage_max);
     }},
    {Scope::top, "queue_max", "a whole number of calls, 1 to 1,000,000", "8,000",
     "calls held at once, in all pools; one more is answered 429",
     [](Target& to, const Raw& raw) {
       return put(read_integer(raw, 1, kQueueMax), to.config->queue_max);
     }},
    {Scope::top, "first_byte_within", "a duration from 1s to 1d", "600s",
     "how long a provider may take until its answer begins",
     [](Target& to, const Raw& raw) {
       return put(read_duration(raw, 1s, kDay), to.config->first_byte_within);
     }},
    {Scope::top, "silence", "a duration from 1s to 1d", "600s",
     "how long a provider may be silent within an answer",
     [](Target& to, const Raw& raw) {
       return put(read_duration(raw, 1s, kDay), to.config->silence);
     }},
    {Scope::top, "quota_pause", "a duration from 1s to 1d", "600s",
     "how long a pool rests whose quota is exhausted",
     [](Target& to, const Raw& raw) {
       return put(read_duration(raw, 1s, kDay), to.config->quota_pause);
     }},
    {Scope::top, "body_limit", "a size from 1KiB to 1GiB", "64MiB",
     "a larger request is answered 413",
     [](Target& to, const Raw& raw) {
       return put(read_bytes(raw, 1024, std::int64_t{1} << 30), to.config->body_limit);
     }},
    {Scope::top, "idle_exit", "a duration from 0s to 1d (0s: never)", "0s",
     "the daemon ends after so long without a call",
     [](Target& to, const Raw& raw) {
       return put(read_duration(raw, 0s, kDay), to.config->idle_exit);
     }},
    {Scope::top, "call_log", "a file name, or \"none\"", "$XDG_STATE_HOME/headgate/calls.jsonl",
     "one JSON line for each call is appended here",
     [](Target& to, const Raw& raw) { return put(read_text(raw), to.config->call_log); }},
    {Scope::top, "ca_file", kFile, "none",
     "certificates (PEM) to trust beside the system's and those of $SSL_CERT_FILE",
     [](Target& to, const Raw& raw) { return put(read_text(raw), to.config->ca_file); }},
    {Scope::top, "profiles_dir", "a directory", "none",
     "own provider and harness profiles (*.toml) that extend or override the built-in ones",
     [](Target& to, const Raw& raw) { return put(read_text(raw), to.config->profiles_dir); }},
    {Scope::top, "runtime_dir", "a directory", "$XDG_RUNTIME_DIR/headgate or /tmp/headgate-UID",
     "holds the daemon's socket and lock; only this user may enter it",
     [](Target& to, const Raw& raw) { return put(read_text(raw), to.config->runtime_dir); }},
    {Scope::top, "log_level", "debug, info, warn, error or off", "info",
     "what the daemon says on stderr",
     [](Target& to, const Raw& raw) { return put(read_level(raw), to.config->log_level); }},

    {Scope::upstream, "url", "http(s)://HOST[:PORT][/PATH], without user, query or fragment", "",
     "where calls are sent",
     [](Target& to, const Raw& raw) { return put(read_url(raw), to.upstream->url); }, Echo::no},
    {Scope::upstream, "profile", "the name of a provider profile", "by the url's host",
     "how this provider counts and refuses",
     [](Target& to, const Raw& raw) { return put(read_text(raw), to.upstream->profile); }},

    {Scope::pool, "upstream", "the name of an upstream", "any",
     "only calls that go to this upstream",
     [](Target& to, const Raw& raw) { return put(read_text(raw), to.pool->upstream); }},
    {Scope::pool, "family", "the name of a model family", "every model",
     "only calls for models of this family, as the provider profile names it",
     [](Target& to, const Raw& raw) { return put(read_text(raw), to.pool->family); }},
    {Scope::pool, "path_only", "true or false", "false", "only calls whose path says /pool/NAME",
     [](Target& to, const Raw& raw) { return put(read_bool(raw), to.pool->path_only); }},
    {Scope::pool, "c_burst", kTokens, kByProfile, "capacity of the token bucket",
     [](Target& to, const Raw& raw) {
       return put(read_integer(raw, 1, kTokensMax), to.pool->c_burst);
     }},
    {Scope::pool, "r_tok", kRate, kByProfile, "its refill",
     [](Target& to, const Raw& raw) {
       return put(read_integer(raw, 1, kTokensMax), to.pool->r_tok);
     }},
    {Scope::pool, "k_inflight", kTokens, kByProfile, "prompt tokens at the provider at once",
     [](Target& to, const Raw& raw) {
       return put(read_integer(raw, 1, kTokensMax), to.pool->k_inflight);
     }},
    {Scope::pool, "c_req", "a whole number of requests, 1 to 1,000,000", kByProfile,
     "capacity of the request bucket",
     [](Target& to, const Raw& raw) {
       return put(read_integer(raw, 1, kRequestsMax), to.pool->c_req);
     }},
    {Scope::pool, "r_qps", "a number of requests a second, 0.000001 to 8,000", kByProfile,
     "its refill",
     [](Target& to, const Raw& raw) {
       return put(read_millionths(raw, 1, kRequestRateMax), to.pool->r_qps);
     }},
    {Scope::pool, "c_out", kTokens, "no output bucket",
     "capacity of the bucket of output tokens; together with r_out",
     [](Target& to, const Raw& raw) {
       return put(read_integer(raw, 1, kTokensMax), to.pool->c_out);
     }},
    {Scope::pool, "r_out", kRate, "no output bucket", "its refill",
     [](Target& to, const Raw& raw) {
       return put(read_integer(raw, 1, kTokensMax), to.pool->r_out);
     }},
    {Scope::pool, "cached_weight", kWeight, kByProfile,
     "what a prompt token read from the provider's cache draws",
     [](Target& to, const Raw& raw) {
       return put(read_millionths(raw, 0, kWeightMaxPpm), to.pool->cached_weight_ppm);
     }},
    {Scope::pool, "output_weight", kWeight, kByProfile, "what an output token draws",
     [](Target& to, const Raw& raw) {
       return put(read_millionths(raw, 0, kWeightMaxPpm), to.pool->output_weight_ppm);
     }},
    {Scope::pool, "priorities", "a table of harness = duration from 0s to 15s", "none",
     "head start in the queue by harness",
     [](Target& to, const Raw& raw) {
       if (!is_name(to.sub)) return false;
       return put(read_duration(raw, 0s, 15s), to.pool->priorities[to.sub]);
     }},
};

const Key* find_key(Scope scope, std::string_view name) {
  for (const Key& key : kKeys) {
    if (key.scope == scope && key.name == name) return &key;
  }
  return nullptr;
}

std::string_view scope_text(Scope scope) {
  switch (scope) {
    case Scope::top: return "";
    case Scope::upstream: return "upstream.NAME";
    case Scope::pool: return "pool.NAME";
  }
  return "";
}

std::string unknown_key(Scope scope, std::string_view place, std::string_view where,
                        std::string_view name) {
  std::string known;
  std::string_view nearest;
  std::size_t nearest_distance = 3;  // More edits than two are another word.
  const auto consider = [&](std::string_view candidate) {
    known += known.empty() ? "" : ", ";
    known += candidate;
    const std::size_t distance = edit_distance(candidate, name);
    if (distance < nearest_distance) {
      nearest_distance = distance;
      nearest = candidate;
    }
  };
  for (const Key& key : kKeys) {
    if (key.scope == scope) consider(key.name);
  }
  if (scope == Scope::top) {
    consider("[upstream.NAME]");
    consider("[pool.NAME]");
  }
  const std::string hint = nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest);
  return fmt::format("{}: unknown key \"{}\"{}{}; allowed are: {}", place,
                     escape_controls(name.substr(0, 80)), where, hint, known);
}

std::string bad_value(std::string_view place, std::string_view path, const Key& key,
                      const Raw& raw) {
  const bool echo = key.echo == Echo::yes && raw.text.size() <= 80;
  const std::string value = echo ? fmt::format(" = {}", escape_controls(raw.text)) : "";
  return fmt::format("{}: {}{} is not possible; allowed is {}", place, path, value, key.allowed);
}

// Finds a named entry, by its exact name or as variables spell it, or makes it.
template <typename Entry>
Entry& entry_of(std::vector<Entry>& entries, std::string_view name, const Place& place) {
  for (Entry& entry : entries) {
    if (entry.name == name) return entry;
  }
  for (Entry& entry : entries) {
    if (loose_name(entry.name) == loose_name(name)) return entry;
  }
  Entry entry;
  entry.name = std::string(name);
  entry.place = place;
  entries.push_back(std::move(entry));
  return entries.back();
}

// Writes one value; the path is "listen" or "pool.main.c_burst" or "pool.main.priorities.codex".
Result<void> apply(Config& config, const std::vector<std::string>& path, const Raw& raw,
                   const Place& place) {
  Target target;
  target.config = &config;
  Scope scope = Scope::top;
  std::size_t at = 0;
  std::string where;
  if (path[0] == "upstream" || path[0] == "pool") {
    if (path.size() < 3) {
      return fail(Errc::invalid,
                  fmt::format("{}: \"{}\" needs a name and a key, such as {}.main.{}", place,
                              path[0], path[0], path[0] == "pool" ? "c_burst" : "url"));
    }
    if (!is_name(path[1])) {
      return fail(Errc::invalid,
                  fmt::format("{}: \"{}\" is not a name: letters, digits, '-' and '_', 1 to 64 of "
                              "them, are allowed",
                              place, escape_controls(path[1].substr(0, 80))));
    }
    scope = path[0] == "pool" ? Scope::pool : Scope::upstream;
    if (scope == Scope::pool) target.pool = &entry_of(config.pools, path[1], place);
    if (scope == Scope::upstream) target.upstream = &entry_of(config.upstreams, path[1], place);
    at = 2;
    where = fmt::format(" in [{}.{}]", path[0], path[1]);
  }
  const Key* key = find_key(scope, path[at]);
  if (key == nullptr) return fail(Errc::invalid, unknown_key(scope, place, where, path[at]));
  const std::size_t rest = path.size() - at - 1;
  if (rest == 1 && key->name == "priorities") {
    target.sub = path[at + 1];
  } else if (rest != 0) {
    return fail(Errc::invalid, unknown_key(scope, place, where, path[at] + "." + path[at + 1]));
  }
  if (key->set(target, raw)) {
    Places& places = target.pool != nullptr       ? target.pool->places
                     : target.upstream != nullptr ? target.upstream->places
                                                  : config.places;
    places[std::string(key->name)] = place;
    return {};
  }
  std::string joined = path[0];
  for (std::size_t index = 1; index < path.size(); ++index) joined += "." + path[index];
  return fail(Errc::invalid, bad_value(place, joined, *key, raw));
}

Raw raw_of(const toml::node& node) {
  Raw raw;
  raw.type = Raw::Type::other;
  if (const auto* text = node.as_string()) {
    raw.type = Raw::Type::text;
    raw.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    raw.type = Raw::Type::number;
    raw.text = fmt::format("{}", integer->get());
  } else if (const auto* number = node.as_floating_point()) {
    raw.type = Raw::Type::number;
    raw.text = fmt::format("{}", number->get());
  } else if (const auto* boolean = node.as_boolean()) {
    raw.type = Raw::Type::boolean;
    raw.text = boolean->get() ? "true" : "false";
  } else {
    raw.text = node.is_table() ? "a table" : node.is_array() ? "an array" : "a date or time";
  }
  return raw;
}

// Applies every leaf of a table, in the order of its lines.
Result<void> apply_table(Config& config, const toml::table& table, std::vector<std::string>& path,
                         std::string_view file_name) {
  std::vector<std::pair<const toml::key*, const toml::node*>> rows;
  for (auto&& [key, node] : table) rows.emplace_back(&key, &node);
  const auto line_of = [](const auto& row) { return row.first->source().begin; };
  std::sort(rows.begin(), rows.end(),
            [&](const auto& left, const auto& right) { return line_of(left) < line_of(right); });
  for (const auto& [key, node] : rows) {
    path.emplace_back(key->str());
    const Place place = fmt::format("{}:{}", file_name, key->source().begin.line);
    // Tables stand where names do: [pool.main], and its priorities.
    const bool named = path[0] == "pool" || path[0] == "upstream";
    const bool nests = named && (path.size() <= 2 || (path.size() == 3 && path[2] == "priorities"));
    Result<void> applied;
    if (nests && node->is_table() && path.size() == 2 && !is_name(path[1])) {
      applied = apply(config, {path[0], path[1], "?"}, Raw(), place);
    } else if (nests && node->is_table()) {
      if (path.size() == 2 && path[0] == "pool") entry_of(config.pools, path[1], place);
      if (path.size() == 2 && path[0] == "upstream") entry_of(config.upstreams, path[1], place);
      applied = apply_table(config, *node->as_table(), path, file_name);
    } else {
      applied = apply(config, path, raw_of(*node), place);
    }
    if (!applied) return applied;
    path.pop_back();
  }
  return {};
}

std::vector<std::string> split_path(std::string_view key) {
  std::vector<std::string> path(1);
  for (const char character : key) {
    if (character == '.') {
      path.emplace_back();
    } else {
      path.back().push_back(character);
    }
  }
  return path;
}

// What no single value shows.
Result<void> check_whole(const Config& config) {
  for (const UpstreamSettings& upstream : config.upstreams) {
    if (upstream.url.empty() && upstream.profile.empty()) {
      return fail(Errc::invalid, fmt::format("{}: upstream.{} needs a url, such as url = "
                                             "\"https://api.example.com\"",
                                             upstream.place, upstream.name));
    }
  }
  for (const PoolSettings& pool : config.pools) {
    if (pool.c_out.has_value() != pool.r_out.has_value()) {
      return fail(Errc::invalid,
                  fmt::format("{}: pool.{} has only one of c_out and r_out; both or "
                              "neither are allowed",
                              pool.place_of(pool.c_out ? "c_out" : "r_out"), pool.name));
    }
  }
  return {};
}

// File names are relative to where they were written: the file's folder, or the present one.
void make_absolute(Config& config, const std::filesystem::path& base) {
  const auto mend = [&](std::string& file) {
    if (!file.empty() && file != "none") file = (base / file).lexically_normal().string();
  };
  mend(config.call_log);
  mend(config.profiles_dir);
  mend(config.ca_file);
  mend(config.runtime_dir);
}

std::string home_config_file() {
  // Read at start, before any thread is.
  const char* base = std::getenv("XDG_CONFIG_HOME");  // NOLINT(concurrency-mt-unsafe)
  if (base != nullptr && *base != '\0') return std::string(base) + "/headgate/headgate.toml";
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  if (home != nullptr && *home != '\0') {
    return std::string(home) + "/.config/headgate/headgate.toml";
  }
  return "";
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  if (!stream) {
    return fail(Errc::not_found, fmt::format("{}: cannot read it: {}", path, std::strerror(errno)));
  }
  return text.str();
}

}  // namespace

namespace {

const Place& found_or(const Places& places, std::string_view key, const Place& otherwise) {
  const auto found = places.find(key);
  return found == places.end() ? otherwise : found->second;
}

}  // namespace

const Place& UpstreamSettings::place_of(std::string_view key) const {
  return found_or(places, key, place);
}

const Place& PoolSettings::place_of(std::string_view key) const {
  return found_or(places, key, place);
}

const Place& Config::place_of(std::string_view key) const {
  static const Place kNowhere = "the configuration";
  return found_or(places, key, kNowhere);
}

const UpstreamSettings* Config::upstream(std::string_view name) const {
  for (const UpstreamSettings& upstream : upstreams) {
    if (upstream.name == name) return &upstream;
  }
  return nullptr;
}

std::vector<KeyDoc> key_reference() {
  std::vector<KeyDoc> docs;
  for (const Key& key : kKeys) {
    docs.push_back({scope_text(key.scope), key.name, key.allowed, key.default_text, key.help});
  }
  return docs;
}

Result<std::vector<Setting>> settings_from_environment(const Environment& environment,
                                                       std::vector<std::string>& unknown) {
  static constexpr std::string_view kPrefix = "HEADGATE_";
  // Names that the program itself reads or gives to its children.
  static constexpr std::string_view kOwn[] = {"HEADGATE_CONFIG", "HEADGATE_URL", "HEADGATE_BIN",
                                              "HEADGATE_RUN", "HEADGATE_TASK"};
  std::vector<Setting> settings;
  for (const auto& [variable, value] : environment) {
    if (!variable.starts_with(kPrefix)) continue;
    if (std::find(std::begin(kOwn), std::end(kOwn), variable) != std::end(kOwn)) continue;
    const std::string name = to_lower(variable.substr(kPrefix.size()));
    if (find_key(Scope::top, name) != nullptr || name == "log") {
      settings.push_back({name == "log" ? "log_level" : name, value, variable});
      continue;
    }
    const bool pool = name.starts_with("pool_");
    if (!pool && !name.starts_with("upstream_")) {
      unknown.push_back(variable);
      continue;
    }
    const std::string_view prefix = pool ? "pool" : "upstream";
    const std::string_view rest = std::string_view(name).substr(prefix.size() + 1);
    std::string path;
    std::size_t longest = 0;
    for (const Key& key : kKeys) {
      if (key.scope != (pool ? Scope::pool : Scope::upstream)) continue;
      const std::string suffix = fmt::format("_{}", key.name);
      if (rest.size() > suffix.size() && rest.ends_with(suffix) && suffix.size() > longest) {
        longest = suffix.size();
        path = fmt::format("{}.{}.{}", prefix, rest.substr(0, rest.size() - suffix.size()),
                           key.name);
      }
    }
    const auto middle = rest.find("_priorities_");
    if (pool && middle != std::string_view::npos && middle > 0) {
      std::string harness(rest.substr(middle + 12));
      std::replace(harness.begin(), harness.end(), '_', '-');
      path = fmt::format("pool.{}.priorities.{}", rest.substr(0, middle), harness);
    }
    if (path.empty()) {
      return fail(Errc::invalid, fmt::format("{}: unknown; HEADGATE_{}_NAME_KEY is allowed, with a "
                                             "KEY of the reference (headgate serve --keys)",
                                             variable, pool ? "POOL" : "UPSTREAM"));
    }
    settings.push_back({path, value, variable});
  }
  return settings;
}

Result<Setting> parse_set(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return fail(Errc::invalid, "--set: KEY=VALUE is allowed, such as --set pool.main.r_tok=4000");
  }
  const std::string key(trim(text.substr(0, equals)));
  return Setting{key, std::string(trim(text.substr(equals + 1))), fmt::format("--set {}", key)};
}

Result<Config> parse_config(std::string_view toml_text, std::string_view file_name,
                            const std::vector<Setting>& settings) {
  Config config;
  config.file = std::string(file_name);
  try {
    const toml::table table = toml::parse(toml_text, file_name);
    std::vector<std::string> path;
    if (auto applied = apply_table(config, table, path, file_name); !applied) {
      return std::unexpected(applied.error());
    }
  } catch (const toml::parse_error& error) {
    return fail(Errc::invalid, fmt::format("{}:{}: not TOML: {}", file_name,
                                           error.source().begin.line, error.description()));
  }
  make_absolute(config, std::filesystem::path(file_name).parent_path());
  for (const Setting& setting : settings) {
    Raw raw;
    raw.text = setting.value;
    if (auto applied = apply(config, split_path(setting.key), raw, setting.place); !applied) {
      return std::unexpected(applied.error());
    }
  }
  if (auto checked = check_whole(config); !checked) return std::unexpected(checked.error());
  return config;
}

Result<Config> load_config(const std::string& path, const std::vector<Setting>& settings,
                           std::vector<std::string>& notes) {
  std::string file = path;
  if (file.empty()) {
    struct stat status{};
    const std::string local = "headgate.toml";
    if (::stat(local.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      if (status.st_uid == ::geteuid() || status.st_uid == 0) {
        file = local;
      } else {
        notes.push_back(
            "headgate.toml here belongs to another user: passed over (--config "
            "headgate.toml reads it)");
      }
    }
  }
  if (file.empty()) {
    const std::string home = home_config_file();
    if (!home.empty() && ::access(home.c_str(), R_OK) == 0) file = home;
  }
  std::string text;
  if (!file.empty()) {
    auto read = read_file(file);
    if (!read) return std::unexpected(read.error());
    text = *read;
  }
  auto config = parse_config(text, file, settings);
  if (!config) return config;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  make_absolute(*config, here);
  if (!file.empty()) config->file = (here / file).lexically_normal().string();
  return config;
}

}  // namespace hg::cli
