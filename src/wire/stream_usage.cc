#include "wire/stream_usage.h"

#include <simdjson.h>

#include "wire/json_read.h"

namespace hg::wire {
namespace {

namespace dom = simdjson::dom;

// A usage chunk is a few hundred bytes; an event longer than this is something else.
constexpr std::size_t kMostHeldBytes = 64 * 1024;
constexpr std::size_t kNowhere = std::string_view::npos;

constexpr std::string_view kAsked = R"({"include_usage":true})";

// A member's value by its place in the text; `begin` is kNowhere where there is no such member.
struct Span {
  std::size_t begin = kNowhere;
  std::size_t end = kNowhere;

  [[nodiscard]] bool found() const { return begin != kNowhere; }
};

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() &&
         (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r')) {
    ++at;
  }
  return at;
}

// Behind the string that opens at `at`; kNowhere when it does not end.
std::size_t skip_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size();) {
    at = text.find_first_of("\"\\", at);
    if (at == kNowhere) return kNowhere;
    if (text[at] == '"') return at + 1;
    at += 2;
  }
  return kNowhere;
}

// Behind the value that begins at `at`.
std::size_t skip_value(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
      if (at == kNowhere) return kNowhere;
      if (depth == 0) return at;
      continue;
    }
    if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    } else if (depth == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
      return at;
    }
    ++at;
  }
  return depth == 0 ? at : kNowhere;
}

// Calls `take(name, value)` for every member of the object that opens at `at`; whether it closes.
template <typename Take>
bool walk(std::string_view text, std::size_t at, const Take& take) {
  if (at >= text.size() || text[at] != '{') return false;
  at = skip_blanks(text, at + 1);
  if (at < text.size() && text[at] == '}') return true;
  for (;;) {
    if (at >= text.size() || text[at] != '"') return false;
    const std::size_t name_end = skip_string(text, at);
    if (name_end == kNowhere) return false;
    const std::string_view name = text.substr(at + 1, name_end - at - 2);
    at = skip_blanks(text, name_end);
    if (at >= text.size() || text[at] != ':') return false;
    const std::size_t begin = skip_blanks(text, at + 1);
    const std::size_t end = skip_value(text, begin);
    if (end == kNowhere || end == begin) return false;
    take(name, Span{begin, end});
    at = skip_blanks(text, end);
    if (at >= text.size()) return false;
    if (text[at] == '}') return true;
    if (text[at] != ',') return false;
    at = skip_blanks(text, at + 1);
  }
}

std::string_view at(std::string_view text, const Span& span) {
  return span.found() ? text.substr(span.begin, span.end - span.begin) : std::string_view{};
}

bool is_empty_object(std::string_view text, std::size_t brace) {
  const std::size_t next = skip_blanks(text, brace + 1);
  return next < text.size() && text[next] == '}';
}

}  // namespace

std::string apply(const BodyEdit& edit, std::string_view body) {
  std::string result;
  result.reserve(body.size() + edit.text.size());
  result += body.substr(0, edit.at);
  result += edit.text;
  result += body.substr(edit.at + edit.removed);
  return result;
}

std::optional<BodyEdit> ask_for_usage(std::string_view body) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  const std::size_t brace = skip_blanks(body, body.starts_with(kMark) ? kMark.size() : 0);
  Span stream;
  Span options;
  const bool whole = walk(body, brace, [&](std::string_view name, const Span& value) {
    if (name == "stream") stream = value;
    if (name == "stream_options") options = value;
  });
  if (!whole || at(body, stream) != "true") return std::nullopt;

  if (!options.found()) {
    return BodyEdit{brace + 1, 0, R"("stream_options":)" + std::string(kAsked) + ","};
  }
  if (at(body, options) == "null") {
    return BodyEdit{options.begin, options.end - options.begin, std::string(kAsked)};
  }
  Span include;
  if (!walk(body, options.begin, [&](std::string_view name, const Span& value) {
        if (name == "include_usage") include = value;
      })) {
    return std::nullopt;  // No object: the provider will say so.
  }
  if (at(body, include) == "true") return std::nullopt;
  if (include.found()) return BodyEdit{include.begin, include.end - include.begin, "true"};
  const bool empty = is_empty_object(body, options.begin);
  return BodyEdit{options.begin + 1, 0,
                  empty ? R"("include_usage":true)" : R"("include_usage":true,)"};
}

bool refuses_stream_options(int status, std::string_view body) {
  if (status != 400 && status != 422) return false;
  return body.find("stream_options") != kNowhere || body.find("include_usage") != kNowhere;
}

struct UsageChunkFilter::State {
  std::string held;            // Of the present event.
  std::size_t line_start = 0;  // Of the present line, in `held`.
  std::size_t line_bytes = 0;  // Of the present line so far, its end not counted.
  bool passing = false;        // The rest of the present event goes on as it comes.
  bool after_cr = false;       // An LF now belongs to the line end before it.
  bool last_hidden = false;    // The event that just ended was taken out.
  std::size_t hidden = 0;
  dom::parser parser;

  [[nodiscard]] bool is_usage_chunk();
  void end_line(std::string& out);
};

// Looks at the data lines of `held`, joined.
bool UsageChunkFilter::State::is_usage_chunk() {
  if (held.find("\"usage\"") == kNowhere) return false;
  std::string data;
  std::string_view rest = held;
  while (!rest.empty()) {
    const std::size_t end = rest.find_first_of("\r\n");
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == kNowhere ? rest.size() : end + 1);
    if (!line.starts_with("data:")) continue;
    line.remove_prefix(5);
    if (!data.empty()) data += '\n';
    data += line;
  }
  dom::object chunk;
  dom::object usage;
  if (parser.parse(data).get(chunk) != simdjson::SUCCESS) return false;
  if (chunk["usage"].get(usage) != simdjson::SUCCESS) return false;
  if (dom::element error; chunk["error"].get(error) == simdjson::SUCCESS && !error.is_null()) {
    return false;
  }
  dom::element choices;
  if (chunk["choices"].get(choices) != simdjson::SUCCESS || choices.is_null()) return true;
  dom::array list;
  return choices.get(list) == simdjson::SUCCESS && list.size() == 0;
}

// The line end itself is in `held` (or passed on) already.
void UsageChunkFilter::State::end_line(std::string& out) {
  const bool empty = line_bytes == 0;
  line_bytes = 0;
  if (empty) {
    last_hidden = !passing && is_usage_chunk();
    if (last_hidden) {
      ++hidden;
    } else {
      out += held;
    }
    held.clear();
    line_start = 0;
    passing = false;
    return;
  }
  // A comment between events waits for nothing.
  if (!passing && line_start == 0 && held.starts_with(':')) {
    out += held;
    held.clear();
    last_hidden = false;
  }
  line_start = held.size();
}

UsageChunkFilter::UsageChunkFilter() : state_(std::make_unique<State>()) {}
UsageChunkFilter::~UsageChunkFilter() = default;
UsageChunkFilter::UsageChunkFilter(UsageChunkFilter&&) noexcept = default;
UsageChunkFilter& UsageChunkFilter::operator=(UsageChunkFilter&&) noexcept = default;

std::string UsageChunkFilter::feed(std::string_view bytes) {
  State& state = *state_;
  std::string out;
  while (!bytes.empty()) {
    if (state.after_cr) {
      state.after_cr = false;
      if (bytes.front() == '\n') {
        // Goes where the CR went.
        if (!state.held.empty()) {
          state.held += '\n';
          state.line_start = state.held.size();
        } else if (!state.last_hidden) {
          out += '\n';
        }
        bytes.remove_prefix(1);
        continue;
      }
    }
    const std::size_t end = bytes.find_first_of("\r\n");
    const std::string_view line = bytes.substr(0, end);
    const std::string_view piece = bytes.substr(0, end == kNowhere ? bytes.size() : end + 1);
    (state.passing ? out : state.held) += piece;
    state.line_bytes += line.size();
    if (end != kNowhere) {
      state.after_cr = bytes[end] == '\r';
      state.end_line(out);
    }
    if (state.held.size() > kMostHeldBytes) {
      out += state.held;
      state.held.clear();
      state.line_start = 0;
      state.passing = true;
      state.last_hidden = false;
    }
    bytes.remove_prefix(piece.size());
  }
  return out;
}

std::string UsageChunkFilter::finish() {
  State& state = *state_;
  std::string rest = std::move(state.held);
  state.held.clear();
  if (!rest.empty()) {
    state.held = rest;
    if (state.is_usage_chunk()) {
      ++state.hidden;
      rest.clear();
    }
    state.held.clear();
  }
  return rest;
}

std::size_t UsageChunkFilter::hidden() const { return state_->hidden; }

}  // namespace hg::wire
