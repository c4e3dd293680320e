// harness_setup.h: what a program needs so that its calls pass through the shim: variables,
// arguments and, in a private directory, files of its own. The user's own files are neither read
// nor touched.
//
// Pure but for write_files. The rules are data: the harness profiles.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "wire/profiles.h"

namespace hg::cli {

using Variables = std::vector<std::pair<std::string, std::string>>;
// The present value of a variable; nothing when it is unset.
using Lookup = std::function<std::optional<std::string>(std::string_view name)>;

// The base URL of one program: upstream and pool may be "".
struct RunAddress {
  std::string listener;  // "http://127.0.0.1:4290"
  std::string upstream;
  std::string pool;
  std::string harness;
  std::string run;
  std::string task;
};
[[nodiscard]] std::string base_url(const RunAddress& address);

// The text with each {env:NAME} (and {env:NAME|WORD}) replaced; nothing when one has no value.
[[nodiscard]] std::optional<std::string> expand_variables(std::string_view text,
                                                          const Lookup& lookup);

// Variables for the child: those of the profile with {url} filled in, HEADGATE_URL, and NO_PROXY
// and no_proxy extended by loopback, so that no corporate proxy gets the calls. What asks for {key}
// is left out: the agent's own key passes through.
[[nodiscard]] Variables harness_variables(const wire::HarnessProfile& harness,
                                          const std::string& url, const Lookup& lookup);

// The program's words with those of the profile behind the first; `words` is not empty.
[[nodiscard]] std::vector<std::string> harness_arguments(const wire::HarnessProfile& harness,
                                                         const std::string& url,
                                                         const std::vector<std::string>& words,
                                                         const Lookup& lookup);

// Writes the profile's files below `directory` (made with mode 0700, files 0600: they may hold the
// user's key) and adds the variables that name them: variables that end with _DIR or HOME get the
// directory. Errc::unavailable.
[[nodiscard]] Result<void> write_files(const wire::HarnessProfile& harness, const std::string& url,
                                       const std::string& directory, const Lookup& lookup,
                                       Variables& variables);

}  // namespace hg::cli
