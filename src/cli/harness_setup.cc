#include "cli/harness_setup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/runtime_dir.h"

namespace hg::cli {

namespace {

constexpr std::string_view kLoopback = "127.0.0.1,localhost,::1";

// Without a key of ours to hand out, what asks for one is left out: the user's own key stays.
bool wants_key(std::string_view text) { return text.find("{key}") != std::string_view::npos; }

std::string filled(std::string text, std::string_view url) {
  constexpr std::string_view kUrl = "{url}";
  for (auto at = text.find(kUrl); at != std::string::npos; at = text.find(kUrl, at + url.size())) {
    text.replace(at, kUrl.size(), url);
  }
  return text;
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
    if (wants_key(setting.value)) continue;
    if (setting.only_if_unset && lookup(setting.name)) continue;
    const bool left_alone = std::any_of(
        setting.unless.begin(), setting.unless.end(),
        [&](const std::string& name) { return lookup(name).has_value(); });
    if (!left_alone) set(variables, setting.name, filled(setting.value, url));
  }
  set(variables, "HEADGATE_URL", url);
  for (const char* name : {"NO_PROXY", "no_proxy"}) {
    const std::string present = lookup(name).value_or("");
    set(variables, name,
        present.empty() ? std::string(kLoopback) : fmt::format("{},{}", present, kLoopback));
  }
  return variables;
}

Result<void> write_files(const wire::HarnessProfile& harness, const std::string& url,
                         const std::string& directory, Variables& variables) {
  for (const auto& file : harness.files) {
    if (wants_key(file.content)) continue;
    // Profiles are trusted, but a path that leaves the directory is a mistake worth naming.
    if (file.path.starts_with('/') || file.path.find("..") != std::string::npos) {
      return fail(Errc::invalid, fmt::format("profile {}: the path of a file must stay inside: {}",
                                             harness.name, file.path));
    }
    const std::string path = directory + "/" + file.path;
    if (auto made = make_parents(path); !made) return made;
    if (auto written = write_file(path, filled(file.content, url)); !written) return written;
    const bool names_directory = file.variable.ends_with("_DIR") || file.variable.ends_with("HOME");
    set(variables, file.variable, names_directory ? directory : path);
  }
  return {};
}

}  // namespace hg::cli
