// profiles.h: what is known of each provider and each harness, as data: data/providers/*.toml and
// data/harnesses/*.toml, built into the binary; a user's own files extend or override them by name.
//
// Every number stands beside its evidence in the file. Pure: texts come in, values or errors (file,
// line, what is allowed) come out. A Profiles is immutable once loaded and may be read from any
// thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/headers.h"
#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "wire/dialect.h"

namespace hg::wire {

// Refusals that share a sign. A rule matches when all that it states holds; the first match
// decides. A profile's own rules come first, then those of the profile "generic".
struct RefusalRule {
  std::vector<int> statuses;  // Any of these; an error event that names none is 200. Empty: any.
  // Patterns ('*' stands for any run) of which one matches a structured code or type in the body,
  // without case; empty: any.
  std::vector<std::string> codes;
  std::vector<std::string> texts;       // Lower case, one is in the message; never alone terminal.
  std::string header;                   // A field that is there, ...
  std::string header_value;             // ... with this value; "" for any.
  std::string lacks_header;             // A field that is not there.
  std::optional<bool> has_retry_after;  // Whether the provider said when to return.
  std::optional<Micros> retry_after_min;  // It said so, and not before this.
  std::optional<Micros> retry_after_max;  // It said so, and not after this.
  std::string means;                      // "overload", "quota", "request", "server".
};

// Limits that a pool starts from when nobody configured it and the provider names none: meant to be
// replaced by what is told or learned. The numbers here are those of the profile "generic".
struct StartLimits {
  Tokens c_burst = 100'000;
  Tokens r_tok = 3'000;  // Tokens/s.
  Tokens k_inflight = 500'000;
  MicroRequests c_req = 10'000'000;
  std::int64_t r_qps = 2'000'000;  // Micro-requests/s.
};

struct ProviderProfile {
  std::string name;                // "anthropic", "openai", "emulated", ...
  std::vector<std::string> hosts;  // Upstream hosts this profile is for; '*' stands for any run.
  std::string default_upstream;    // "https://api.anthropic.com"; "" when there is none.
  Dialect main_dialect = Dialect::other;
  std::vector<Dialect> also_speaks;  // Besides that one.
  [[nodiscard]] bool speaks(Dialect dialect) const;
  std::int64_t weight_cached_ppm = 1'000'000;  // What a cached token draws from the limit.
  std::int64_t weight_output_ppm = 0;
  bool reserves_max_output = false;  // The declared output limit counts until settled.
  bool refused_calls_count = false;
  bool retry_after_marks_own = false;  // A gateway between, whose own 429s are those with
                                       // retry-after.
  // Whether a streamed chat completion must ask for its usage (stream_options.include_usage): `ask`
  // where the provider is known to take it, `leave` where it reports usage unasked or refuses the
  // field, `learn` to ask until it answers 400 for it.
  enum class StreamUsage : std::uint8_t { ask, leave, learn };
  StreamUsage stream_usage = StreamUsage::leave;
  Micros cache_lifetime{300'000'000};
  Micros clock_offset{0};  // How far its clock is ahead of UTC, for times written without a zone.
  std::int64_t kappa_micro = 4'890'000;  // Prompt bytes a token, x 10^6.
  StartLimits start;
  std::vector<RefusalRule> refusals;
  std::vector<std::string> auth_headers;   // Fields that carry the key: "x-api-key",
                                           // "authorization".
  std::vector<std::string> key_variables;  // Environment variables in which programs look for its
                                           // key: one of them is enough.
  std::vector<std::string> key_prefixes;   // By which its keys are told from those of others.
  // Model families that share a limit: the first pattern ("claude-opus-*") that matches names it;
  // else the model.
  struct Family {
    std::string pattern;
    std::string name;
  };
  std::vector<Family> families;
};

struct HarnessProfile {
  std::string name;                      // "claude-code", "opencode", ...
  std::vector<std::string> programs;     // argv[0] basenames that are this harness: "claude".
  std::vector<std::string> verified;     // Versions with which the numbers were measured.
  std::vector<std::string> user_agents;  // Lower-case prefixes of User-Agent.
  Micros hold_cap{45'000'000};           // Longest hold that this program stands.
  std::optional<Micros> header_timeout;  // It goes away when no headers came by then (total or
                                         // header timeout).
  std::optional<Micros> idle_timeout;
  int refusals_survived = 0;                 // 429s in a row that it rides out.
  Micros retry_after_max{60'000'000};        // Longest retry-after that it obeys; >= 1 s.
  std::vector<std::string> session_headers;  // Fields that name the conversation, the first present
                                             // wins.
  std::string timeout_header;  // A field that announces the client's own limit in seconds, or "".
  // The value of `retry-after` in our own 429s, at most retry_after_max.
  Micros retry_after{30'000'000};
  Dialect dialect = Dialect::other;
  // How `exec` points the program at the shim: environment variables, arguments, and a file for its
  // own configuration. "{url}" is the shim's base URL without a trailing slash; "{key}" the key or
  // a local token: without one to hand out, what mentions it is left out; "{env:NAME}" the user's
  // variable: without it, what mentions it is left out; "{env:NAME|WORD}" is WORD then.
  struct Setting {
    std::string name;
    std::string value;
    bool only_if_unset = false;
    std::vector<std::string> unless;  // Left alone when any of these variables is set.
    bool only_if_set = false;         // Replaces the user's value and is never added.
  };
  std::vector<Setting> environment;
  // Put between the program's name and the user's own words, so that those win.
  struct Argument {
    std::vector<std::string> words;   // At least one; with the same placeholders.
    std::vector<std::string> unless;  // Left out when the user wrote any of these ("--x" or
                                      // "--x=...").
  };
  std::vector<Argument> arguments;
  struct ConfigFile {
    std::string variable;        // Environment variable that names the file or its directory.
    std::string path;            // Relative to a private temporary directory.
    std::string content;         // With the same placeholders, values quoted for a JSON string.
    bool only_if_unset = false;  // Left out when the user set that variable.
    std::string unless_file;     // Left out when this file of the user's is there; "": never.
  };
  std::vector<ConfigFile> files;
  // Files of the user's own in which the program finds an address (or a choice) that counts more
  // than its environment. They are only looked at, and only by `doctor`.
  struct Override {
    std::vector<std::string> files;  // JSON (with comments) or TOML; relative: to where it runs.
    std::vector<std::string> keys;   // "env.ANTHROPIC_BASE_URL"; a "*" stands for any one key.
    std::string wanted;              // The value that is right; "": any address of a gate.
  };
  std::vector<Override> overrides;
};

// A profile file's text and the name it is called in errors.
struct ProfileText {
  std::string_view file;
  std::string_view text;
};

class Profiles {
 public:
  // Those built in.
  [[nodiscard]] static const Profiles& built_in();

  // Those built in, extended or overridden by name. Errc::invalid with file, line and what is
  // allowed.
  [[nodiscard]] static Result<Profiles> load(const std::vector<ProfileText>& more);

  // By name; null if unknown. Pointers live as long as the Profiles.
  [[nodiscard]] const ProviderProfile* provider(std::string_view name) const;
  [[nodiscard]] const HarnessProfile* harness(std::string_view name) const;

  // By upstream host; the profile "generic" when none matches.
  [[nodiscard]] const ProviderProfile& provider_for_host(std::string_view host) const;
  // By the basename of the program, or by User-Agent; the profile "custom" when none matches.
  [[nodiscard]] const HarnessProfile& harness_for_program(std::string_view basename) const;
  [[nodiscard]] const HarnessProfile& harness_for_request(const Headers& headers) const;

  // All, sorted by name.
  [[nodiscard]] const std::vector<ProviderProfile>& providers() const { return providers_; }
  [[nodiscard]] const std::vector<HarnessProfile>& harnesses() const { return harnesses_; }

 private:
  std::vector<ProviderProfile> providers_;
  std::vector<HarnessProfile> harnesses_;
};

// The pool family of a model under a provider.
[[nodiscard]] std::string family_of(const ProviderProfile& provider, std::string_view model);

}  // namespace hg::wire
