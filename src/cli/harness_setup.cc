#include "cli/harness_setup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/runtime_dir.h"

namespace hg::cli {

namespace {

constexpr std::string_view kLoopback = "127.0.0.1,localhost,::1";

enum class Quoting : std::uint8_t { none, json };

void append(std::string& text, std::string_view value, Quoting quoting) {
  for (const char c : value) {
    // Nothing that is set into a JSON string may end it; other controls stand in no key or URL.
    if (quoting == Quoting::json && (c == '"' || c == '\\')) text += '\\';
    text += c;
  }
}

// The text with its placeholders replaced; nothing when one of them has no value. Without a key of
// ours to hand out, what asks for one is left out: the user's own key stays.
std::optional<std::string> filled(std::string_view text, std::string_view url, const Lookup& lookup,
                                  Quoting quoting = Quoting::none) {
  constexpr std::string_view kUrl = "{url}";
  constexpr std::string_view kKey = "{key}";
  constexpr std::string_view kVariable = "{env:";
  std::string result;
  while (!text.empty()) {
    const std::size_t brace = text.find('{');
    result += text.substr(0, brace);
    if (brace == std::string_view::npos) break;
    text.remove_prefix(brace);
    const std::size_t end = text.find('}');
    if (text.starts_with(kUrl)) {
      append(result, url, quoting);
      text.remove_prefix(kUrl.size());
    } else if (text.starts_with(kKey)) {
      return std::nullopt;
    } else if (text.starts_with(kVariable) && end != std::string_view::npos) {
      std::string_view name = text.substr(kVariable.size(), end - kVariable.size());
      const std::size_t bar = name.find('|');
      std::optional<std::string> value = lookup(name.substr(0, bar));
      if (!value && bar != std::string_view::npos) value = name.substr(bar + 1);
      if (!value) return std::nullopt;
      append(result, *value, quoting);
      text.remove_prefix(end + 1);
    } else {
      result += '{';
      text.remove_prefix(1);
    }
  }
  return result;
}

bool user_wrote(const std::vector<std::string>& words, std::string_view option) {
  return std::any_of(words.begin() + 1, words.end(), [&](std::string_view word) {
    return word == option || (word.starts_with(option) && word.substr(option.size(), 1) == "=");
  });
}

void set(Variables& variables, const std::string& name, std::string value) {
  for (auto& [present, old] : variables) {
    if (present == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

Result<void> write_file(const std::string& path, const std::string& content) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return fail(Errc::unavailable, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  std::string_view rest = content;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  ::close(descriptor);
  if (!rest.empty()) {
    return fail(Errc::unavailable, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  return {};
}

}  // namespace

std::optional<std::string> expand_variables(std::string_view text, const Lookup& lookup) {
  return filled(text, "", lookup);
}

std::string base_url(const RunAddress& address) {
  std::string url = address.listener;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) url += fmt::format("/{}/{}", name, value);
  };
  add("upstream", address.upstream);
  add("pool", address.pool);
  add("harness", address.harness);
  add("run", address.run);
  add("task", address.task);
  return url;
}

Variables harness_variables(const wire::HarnessProfile& harness, const std::string& url,
                            const Lookup& lookup) {
  Variables variables;
  for (const auto& setting : harness.environment) {
    const bool is_set = lookup(setting.name).has_value();
    if (is_set ? setting.only_if_unset : setting.only_if_set) continue;
    const bool left_alone = std::any_of(
        setting.unless.begin(), setting.unless.end(),
        [&](const std::string& name) { return lookup(name).has_value(); });
    if (left_alone) continue;
    if (auto value = filled(setting.value, url, lookup)) {
      set(variables, setting.name, *std::move(value));
    }
  }
  set(variables, "HEADGATE_URL", url);
  for (const char* name : {"NO_PROXY", "no_proxy"}) {
    const std::string present = lookup(name).value_or("");
    set(variables, name,
        present.empty() ? std::string(kLoopback) : fmt::format("{},{}", present, kLoopback));
  }
  return variables;
}

std::vector<std::string> harness_arguments(const wire::HarnessProfile& harness,
                                           const std::string& url,
                                           const std::vector<std::string>& words,
                                           const Lookup& lookup) {
  std::vector<std::string> result = {words.front()};
  for (const auto& argument : harness.arguments) {
    if (std::any_of(argument.unless.begin(), argument.unless.end(),
                    [&](const std::string& option) { return user_wrote(words, option); })) {
      continue;
    }
    std::vector<std::string> own;
    for (const std::string& word : argument.words) {
      if (auto text = filled(word, url, lookup)) own.push_back(*std::move(text));
    }
    if (own.size() == argument.words.size()) result.insert(result.end(), own.begin(), own.end());
  }
  result.insert(result.end(), words.begin() + 1, words.end());
  return result;
}

Result<void> write_files(const wire::HarnessProfile& harness, const std::string& url,
                         const std::string& directory, const Lookup& lookup, Variables& variables) {
  for (const auto& file : harness.files) {
    if (file.only_if_unset && lookup(file.variable)) continue;
    if (!file.unless_file.empty()) {
      const auto users = filled(file.unless_file, url, lookup);
      std::error_code unreadable;
      if (!users || std::filesystem::exists(*users, unreadable)) continue;
    }
    // Profiles are trusted, but a path that leaves the directory is a mistake worth naming.
    if (file.path.starts_with('/') || file.path.find("..") != std::string::npos) {
      return fail(Errc::invalid, fmt::format("profile {}: the path of a file must stay inside: {}",
                                             harness.name, file.path));
    }
    const auto content = filled(file.content, url, lookup, Quoting::json);
    if (!content) continue;
    const std::string path = directory + "/" + file.path;
    if (auto made = make_parents(path); !made) return made;
    if (auto written = write_file(path, *content); !written) return written;
    const bool names_directory = file.variable.ends_with("_DIR") || file.variable.ends_with("HOME");
    set(variables, file.variable, names_directory ? directory : path);
  }
  return {};
}

}  // namespace hg::cli
