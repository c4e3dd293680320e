#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

#include "base/text.h"

namespace hg {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
    case LogLevel::off: return spdlog::level::off;
  }
  return spdlog::level::off;
}

// Made at first use and never destroyed, so that threads may log while the program ends.
spdlog::logger& logger() {
  static auto* const instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();  // Colours on a terminal
                                                                          // only.
    auto* made = new spdlog::logger("headgate", std::move(sink));
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %^%-5l%$ %v", spdlog::pattern_time_type::utc);
    made->set_level(spdlog::level::info);
    return made;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

bool log_enabled(LogLevel level) { return logger().should_log(to_spdlog(level)); }

void log_line(LogLevel level, std::string_view text) {
  logger().log(to_spdlog(level), "{}", escape_controls(text));
}

}  // namespace hg
