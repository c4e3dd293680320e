#include "cli/doctor_addresses.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <boost/json.hpp>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/text.h"
#include "cli/doctor_keys.h"
#include "proxy/route.h"

namespace hg::cli {

namespace json = boost::json;

namespace {

constexpr std::string_view kAbout = "addresses";
constexpr std::string_view kExec = "Start the program by headgate exec, which sets it";

std::string about() { return std::string(kAbout); }

// "export NAME=URL", or where the URL is to be had.
std::string export_line(const BaseVariable& variable, const std::string& gate) {
  if (gate.empty()) return "start headgate serve and export what it prints";
  return fmt::format("export {}={}{}", variable.name, gate, variable.suffix);
}

// The provider's own path, without the attribution that stands before it.
std::string path_behind_prefix(const net::Url& url) {
  if (url.path.empty()) return "";
  const auto route = proxy::parse_route(url.path);
  if (!route) return url.path;
  return route->target == "/" ? "" : route->target;
}

bool ends_with_version(std::string_view path) {
  const std::string_view last = path.substr(path.rfind('/') + 1);
  return last.size() > 1 && last.front() == 'v' && last[1] >= '0' && last[1] <= '9';
}

// What is wrong with how it is written, whatever it leads to.
std::optional<Finding> check_form(const BaseVariable& variable, std::string_view text) {
  const auto seen = [&](std::string_view what) {
    return fmt::format("{} {}", variable.name, what);
  };
  if (text.empty()) {
    return warning(
        "addresses.empty", about(), seen("is set, but empty"),
        fmt::format("Unset {}: some programs take the empty text for an address.", variable.name));
  }
  if (std::string_view(" \t\r\n\"'`").find(text.front()) != std::string_view::npos ||
      std::string_view(" \t\r\n\"'`").find(text.back()) != std::string_view::npos) {
    return problem("addresses.malformed", about(),
                   seen("has a blank, a line break or a quotation mark at its start or end"),
                   fmt::format("Set {} anew without it.", variable.name));
  }
  const auto url = net::parse_url(text);
  if (!url || url->scheme == net::Scheme::unix_socket) {
    // The text itself may hold a key; the reason behind it does not.
    const std::string detail = url ? "it is no http URL" : url.error().detail;
    const auto reason = detail.rfind("URL: ");
    return problem(
        "addresses.malformed", about(),
        seen(fmt::format("is no usable URL: {}",
                         reason == std::string::npos ? detail : detail.substr(reason + 5))),
        fmt::format("Set {} to http(s)://HOST[:PORT]{}, or unset it.", variable.name,
                    variable.suffix));
  }
  return std::nullopt;
}

// What is wrong with its path; calls that a gate mends are only warned of.
std::optional<Finding> check_path(const BaseVariable& variable, std::string_view text,
                                  const net::Url& url) {
  const std::string path = path_behind_prefix(url);
  const std::string shown = url.text();
  if (path.find("/v1/v1") != std::string::npos) {
    return problem("addresses.double_v1", about(),
                   fmt::format("{}={} says /v1 twice", variable.name, shown),
                   fmt::format("Write it once: {}{}.", url.origin(), variable.suffix));
  }
  if (variable.suffix.empty() && path.ends_with("/v1")) {
    return warning(
        "addresses.extra_v1", about(),
        fmt::format("{}={} ends with /v1, which its programs add themselves", variable.name, shown),
        fmt::format("Write it without: {}.", shown.substr(0, shown.size() - 3)));
  }
  if (variable.suffix == "/v1" && path.empty() && !ends_with_version(path)) {
    return warning(
        "addresses.missing_v1", about(),
        fmt::format("{}={} lacks the /v1 that its programs do not add", variable.name, shown),
        fmt::format("Write it with: {}/v1.", shown));
  }
  if (text.ends_with('/')) {
    return warning(
        "addresses.slash", about(),
        fmt::format("{} ends with a slash: some programs then ask for //", variable.name),
        fmt::format("Write it without: {}.", shown));
  }
  return std::nullopt;
}

Finding check_target(const BaseVariable& variable, const net::Url& url,
                     const wire::Profiles& profiles, const std::string& gate,
                     const AskListener& ask) {
  const std::string shown = fmt::format("{}={}", variable.name, url.text());
  const std::string mend = fmt::format("{}, or {}.", kExec, export_line(variable, gate));
  const std::string& provider = profiles.provider_for_host(url.host).name;
  if (provider != "generic") {
    return warning("addresses.direct", about(),
                   fmt::format("{} leads to {} itself: calls bypass the gate", shown, provider),
                   mend);
  }
  const Listener who = ask(url);
  if (who == Listener::nobody) {
    return problem("addresses.nobody", about(),
                   fmt::format("{} leads to where nobody listens: every call will fail", shown),
                   fmt::format("Start headgate serve there, or unset {}; headgate exec needs "
                               "neither.",
                               variable.name));
  }
  if (url.scheme == net::Scheme::http && !is_loopback(url.host)) {
    return warning("addresses.clear_text", about(),
                   fmt::format("{} carries keys over the network in the clear", shown),
                   "Use https, or a gate on this machine's loopback.");
  }
  if (who == Listener::gate) return fine("addresses.gate", about(), shown + " leads to a gate");
  if (who == Listener::not_asked) {
    return fine("addresses.gate", about(), shown + ": who answers there was not asked");
  }
  return warning("addresses.elsewhere", about(),
                 fmt::format("{} leads to no Headgate: calls bypass the gate", shown), mend);
}

json::value to_json(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    json::object object;
    for (auto&& [key, value] : *table) object[std::string(key.str())] = to_json(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    json::array list;
    for (const toml::node& element : *array) list.push_back(to_json(element));
    return list;
  }
  if (const auto* text = node.as_string()) return json::value(text->get());
  return nullptr;
}

void collect(const json::value& value, std::string_view rest, const std::string& path,
             std::vector<SettingsValue>& found) {
  if (rest.empty()) {
    if (value.is_string()) found.push_back({path, std::string(value.get_string())});
    return;
  }
  const auto dot = std::min(rest.find('.'), rest.size());
  const std::string_view key = rest.substr(0, dot);
  const std::string_view below = rest.substr(std::min(dot + 1, rest.size()));
  const auto next = [&](std::string_view name) {
    return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
  };
  if (value.is_object()) {
    for (const auto& [name, member] : value.get_object()) {
      const std::string_view text = name;
      if (key == "*" || key == text) collect(member, below, next(text), found);
    }
  } else if (value.is_array() && key == "*") {
    std::size_t place = 0;
    for (const json::value& element : value.get_array()) {
      collect(element, below, next(fmt::format("{}", place++)), found);
    }
  }
}

}  // namespace

std::vector<BaseVariable> base_variables(const wire::Profiles& profiles) {
  constexpr std::string_view kUrl = "{url}";
  std::vector<BaseVariable> variables;
  const auto take = [&](const wire::HarnessProfile& harness) {
    for (const auto& setting : harness.environment) {
      const bool known = std::any_of(
          variables.begin(), variables.end(),
          [&](const BaseVariable& variable) { return variable.name == setting.name; });
      if (!known && setting.value.starts_with(kUrl)) {
        variables.push_back({setting.name, setting.value.substr(kUrl.size())});
      }
    }
  };
  // What most programs understand by a variable decides.
  take(*profiles.harness("custom"));
  for (const wire::HarnessProfile& harness : profiles.harnesses()) take(harness);
  return variables;
}

Findings check_base_variables(const Environment& environment, const wire::Profiles& profiles,
                              const std::string& gate, const AskListener& ask) {
  Findings findings;
  bool any = false;
  for (const BaseVariable& variable : base_variables(profiles)) {
    const auto text = value_of(environment, variable.name);
    if (!text) continue;
    any = true;
    if (auto form = check_form(variable, *text)) {
      findings.push_back(std::move(*form));
      continue;
    }
    const net::Url url = *net::parse_url(*text);
    if (auto path = check_path(variable, *text, url)) findings.push_back(std::move(*path));
    findings.push_back(check_target(variable, url, profiles, gate, ask));
  }
  if (!any) {
    findings.push_back(fine("addresses.unset", about(),
                            "no base URL is set in this shell: headgate exec sets them for its "
                            "program"));
  }
  return findings;
}

Findings check_proxy_variables(const Environment& environment) {
  std::string proxy;
  for (const std::string_view name :
       {"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}) {
    const auto value = value_of(environment, name);
    if (value && !value->empty()) proxy += (proxy.empty() ? "" : ", ") + std::string(name);
  }
  if (proxy.empty()) return {};
  std::string direct;
  for (const std::string_view name : {"no_proxy", "NO_PROXY"}) {
    direct += fmt::format(",{},", to_lower(value_of(environment, name).value_or("")));
  }
  std::erase_if(direct, [](char c) { return c == ' ' || c == '\t'; });
  std::string missing;
  for (const std::string_view name : {"127.0.0.1", "localhost"}) {
    const bool there = direct.find(fmt::format(",{},", name)) != std::string::npos ||
                       direct.find(",*,") != std::string::npos ||
                       (name == "127.0.0.1" && direct.find(",127.0.0.0/8,") != std::string::npos);
    if (!there) missing += (missing.empty() ? "" : " and ") + std::string(name);
  }
  if (missing.empty()) {
    return {fine("addresses.proxy", about(),
                 fmt::format("{} set; NO_PROXY keeps loopback away from it", proxy))};
  }
  return {warning("addresses.proxy_takes_loopback", about(),
                  fmt::format("{} set, and NO_PROXY lacks {}: calls to a gate on this machine go "
                              "to the proxy",
                              proxy, missing),
                  "For programs started by hand: export "
                  "NO_PROXY=\"$NO_PROXY,127.0.0.1,localhost,::1\"; headgate exec does it itself.")};
}

Result<std::vector<SettingsValue>> settings_values(std::string_view file, std::string_view text,
                                                   const std::vector<std::string>& keys) {
  json::value value;
  if (file.ends_with(".toml")) {
    try {
      value = to_json(toml::parse(text, file));
    } catch (const toml::parse_error&) {
      return fail(Errc::invalid, "it is no TOML");
    }
  } else {
    json::parse_options options;
    options.allow_comments = true;
    options.allow_trailing_commas = true;
    boost::system::error_code error;
    value = json::parse(text, error, {}, options);
    if (error) return fail(Errc::invalid, "it is no JSON");
  }
  std::vector<SettingsValue> found;
  for (const std::string& key : keys) collect(value, key, "", found);
  return found;
}

Findings check_settings_file(const wire::HarnessProfile& harness,
                             const wire::HarnessProfile::Override& rule, std::string_view file,
                             std::string_view text, const std::string& gate,
                             const AskListener& ask) {
  const auto values = settings_values(file, text, rule.keys);
  if (!values) {
    return {warning(
        "addresses.settings_unread", about(),
        fmt::format("{} ({}) cannot be read: {}", file, harness.name, values.error().detail),
        fmt::format("Mend the file: {} may not read it either.", harness.name))};
  }
  Findings findings;
  for (const SettingsValue& entry : *values) {
    const std::string where = fmt::format("{}: {} in {}", harness.name, entry.key, file);
    if (!rule.wanted.empty()) {
      if (entry.value == rule.wanted) continue;
      findings.push_back(warning(
          "addresses.settings_choice", about(),
          fmt::format("{} is not {}: behind a gate the program may end with an error, or go "
                      "elsewhere",
                      where, rule.wanted),
          fmt::format("Set {} to \"{}\" in {} for runs behind a gate.", entry.key, rule.wanted,
                      file)));
      continue;
    }
    const auto url = net::parse_url(entry.value);
    const bool usable = url && url->scheme != net::Scheme::unix_socket;
    if (usable && ask(*url) == Listener::gate) {
      findings.push_back(fine("addresses.settings_gate", about(),
                              fmt::format("{} leads to a gate ({})", where, url->text())));
      continue;
    }
    findings.push_back(warning(
        "addresses.settings_override", about(),
        fmt::format("{} names {} and counts more than the environment: its calls bypass the gate",
                    where, usable ? url->text() : "an address of its own"),
        fmt::format("Remove it there, or set it to {}.",
                    gate.empty() ? "the URL that headgate serve prints" : gate)));
  }
  return findings;
}

}  // namespace hg::cli
