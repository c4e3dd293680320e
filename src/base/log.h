// log.h: what the program says to its operator while it runs: one line an event, to stderr.
//
// Never pass a header's value, a key, a query string or a body: names, sizes and salted ids only.
// Thread-safety: any thread. Pure modules do not log; they answer, and their callers log.
#pragma once
#include <fmt/core.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace hg {

enum class LogLevel : std::uint8_t { debug, info, warn, error, off };

// Lines below this level are dropped. Starts at info; `HEADGATE_LOG` and --log-level set it in
// main.
void set_log_level(LogLevel level);
[[nodiscard]] bool log_enabled(LogLevel level);

// One line: time, level, text. Line breaks and control characters inside the text are escaped.
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::debug)) {
    log_line(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
  }
}

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::info)) {
    log_line(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
  }
}

template <typename... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::warn)) {
    log_line(LogLevel::warn, fmt::format(format, std::forward<Args>(args)...));
  }
}

template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::error)) {
    log_line(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace hg
