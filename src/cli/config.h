// config.h: everything that can be configured, as one value, from one table of keys.
//
// Sources, the later wins: defaults, headgate.toml, environment (HEADGATE_...), flags. Every key of
// the table is a key of the file, an environment variable and (--set KEY=VALUE, for the common ones
// a flag of its own) an argument. No source is needed. An unknown key or an impossible value is an
// Error of Errc::invalid that names its place (file and line, variable or flag) and what is
// allowed. Secrets are never values here: only the name of the variable or file that holds a key
// is. Pure but for load_config, which reads one file; values, so any thread.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "base/units.h"

namespace hg::cli {

// Where a value was written: "headgate.toml:12", "HEADGATE_LISTEN", "--listen"; "" for a default.
using Place = std::string;
using Places = std::map<std::string, Place, std::less<>>;  // Key -> where it was written.

struct UpstreamSettings {
  std::string name;
  std::string url;      // http(s)://host[:port][/path]
  std::string profile;  // Provider profile; "" chooses by the url's host.
  Place place;
  Places places;  // Of its keys.

  // Where this key was written; where the upstream was, for one that nobody wrote.
  [[nodiscard]] const Place& place_of(std::string_view key) const;
};

// A named pool: which calls it is for, and the limits that differ from the profile's.
struct PoolSettings {
  std::string name;
  std::string upstream;    // Name of an upstream; "" is allowed while there is only one.
  std::string family;      // Of the model, as the profile names it: "claude-opus"; "": every model.
  bool path_only = false;  // Only calls whose path says /pool/NAME.
  std::optional<Tokens> c_burst;
  std::optional<std::int64_t> r_tok;
  std::optional<Tokens> k_inflight;
  std::optional<std::int64_t> c_req;
  std::optional<MicroRequests> r_qps;
  std::optional<Tokens> c_out;
  std::optional<std::int64_t> r_out;
  std::optional<std::int64_t> cached_weight_ppm;
  std::optional<std::int64_t> output_weight_ppm;
  std::map<std::string, Micros> priorities;  // Harness -> head start in the queue.
  Place place;
  Places places;  // Of its keys.

  [[nodiscard]] const Place& place_of(std::string_view key) const;  // As of an upstream.
};

struct Config {
  std::string file;  // The file that was read; "" when there is none.
  std::string listen_host = "127.0.0.1";
  int listen_port = 4290;  // 0: the kernel picks.
  std::string host_names;  // More names under which agents reach it, separated by commas.
  std::vector<UpstreamSettings> upstreams;
  std::string default_upstream;  // The one for paths that do not tell; "" chooses by dialect.
  std::vector<PoolSettings> pools;
  std::optional<Micros> hold_cap;         // Of every call, whatever the harness profiles say.
  Micros hold_cap_max{240'000'000};       // No hold is longer, whatever the program stands.
  std::optional<Micros> overload_step;    // Waits after overloads: step x n; by default 30 s.
  Micros outage_max{20'000'000};          // A provider that cannot be reached is waited for.
  std::int64_t queue_max = 8'000;         // Calls held at once.
  Micros first_byte_within{600'000'000};  // Of a provider's answer.
  Micros silence{600'000'000};            // Between two bytes of it.
  Micros quota_pause{600'000'000};        // Of a pool whose quota is exhausted.
  std::int64_t body_limit = std::int64_t{64} * 1024 * 1024;
  Micros idle_exit{0};       // serve ends after so long without a client; 0: never.
  std::string call_log;      // "" is the default place (default_call_log), "none" is no log.
  std::string ca_file;       // PEM, trusted beside the system's store; "": none.
  std::string profiles_dir;  // The user's own profile files; "": none.
  std::string runtime_dir;   // "" is $XDG_RUNTIME_DIR/headgate or /tmp/headgate-UID.
  LogLevel log_level = LogLevel::info;
  Places places;  // Of the top-level keys that were written.

  [[nodiscard]] const UpstreamSettings* upstream(std::string_view name) const;
  // Where a top-level key was written; "the configuration" for one that nobody wrote.
  [[nodiscard]] const Place& place_of(std::string_view key) const;
};

// One key as people see it in the reference (`headgate serve --help-config`,
// docs/configuration.md).
struct KeyDoc {
  std::string_view scope;  // "", "upstream.NAME" or "pool.NAME".
  std::string_view key;
  std::string_view allowed;  // "a whole number of tokens, 1 to 1,000,000,000".
  std::string_view default_text;
  std::string_view help;
};
[[nodiscard]] std::vector<KeyDoc> key_reference();

// A value that did not come from a file: KEY=VALUE with KEY as in the reference
// ("pool.main.c_burst"), and where it came from for errors.
struct Setting {
  std::string key;
  std::string value;
  Place place;
};

// The settings that environment variables make. HEADGATE_<KEY> for top-level keys,
// HEADGATE_UPSTREAM_<NAME>_<KEY> and HEADGATE_POOL_<NAME>_<KEY> for the others (names in lower
// case, '_' for '-'). Errc::invalid for an unknown one of the last two forms; `unknown` collects
// the other unknown names, to be warned of.
using Environment = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] Result<std::vector<Setting>> settings_from_environment(
    const Environment& environment, std::vector<std::string>& unknown);

// "KEY=VALUE" of --set.
[[nodiscard]] Result<Setting> parse_set(std::string_view text);

// A file's text and the settings on top of it. `file_name` is what errors call it; "" when there is
// no file. File names inside are relative to its folder; load_config makes all of them absolute.
// Checks everything that can be checked without the profiles.
[[nodiscard]] Result<Config> parse_config(std::string_view toml_text, std::string_view file_name,
                                          const std::vector<Setting>& settings);

// Reads `path`, or, when it is empty, the first there is of ./headgate.toml (only if it belongs to
// this user or root, since a file that comes with somebody's sources must not choose where keys are
// sent) and $XDG_CONFIG_HOME/headgate/headgate.toml. A named file that cannot be read is an error.
// `notes` collects what people should know, such as a file that was passed over.
[[nodiscard]] Result<Config> load_config(const std::string& path,
                                         const std::vector<Setting>& settings,
                                         std::vector<std::string>& notes);

// Values as people write them: "30s", "1.5m", "500ms" or seconds; "64MiB", "10kB" or bytes.
[[nodiscard]] std::optional<Micros> parse_duration(std::string_view text);
[[nodiscard]] std::optional<std::int64_t> parse_bytes(std::string_view text);

// "127.0.0.1:4290", "[::1]:4290", ":4290", "4290": host ("127.0.0.1" when absent) and port.
[[nodiscard]] std::optional<std::pair<std::string, int>> parse_listen(std::string_view text);

// Whether only this machine can reach it.
[[nodiscard]] bool is_loopback(std::string_view host);

}  // namespace hg::cli
