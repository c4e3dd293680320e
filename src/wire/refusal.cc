#include "wire/refusal.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/pattern.h"
#include "base/text.h"
#include "base/units.h"
#include "wire/errors.h"
#include "wire/json_mend.h"
#include "wire/rate_headers.h"
#include "wire/retry_after.h"
#include "wire/retry_prose.h"

namespace hg::wire {
namespace {

namespace json = boost::json;

// Error bodies may be pages of HTML; what matters stands at their start.
constexpr std::size_t kMostBodyBytes = 64 * 1024;
constexpr std::size_t kMostMessageBytes = 8 * 1024;
constexpr std::size_t kMostCodes = 32;

// What an error's body says, whatever its shape.
struct ErrorBody {
  std::vector<std::string> codes;
  std::string message;  // Lower case.
  std::optional<Micros> hint;
  std::optional<int> status;  // Numeric codes that are HTTP statuses, for errors inside a 200.
};

class BodyReader {
 public:
  BodyReader(ErrorBody& body, WallTime wall) : body_(body), wall_(wall) {}

  void read(std::string_view text);

 private:
  void take_value(const json::value& value);
  void take_object(const json::object& object);
  void take_fields(const json::object& object);
  void take_code(const json::value* code);
  void take_message(std::string_view text);
  void take_hints(const json::object& object);
  void take_details(const json::array& details);
  void take_metadata(const json::object& metadata);
  void take_packed(std::string_view text);
  void take_delay(const json::value* value);

  void hint(const std::optional<Micros>& delay) {
    if (delay && !body_.hint) body_.hint = delay;
  }

  ErrorBody& body_;
  WallTime wall_;
  int depth_ = 0;
};

const json::value* member(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

const json::object* object_in(const json::object& object, std::string_view name) {
  const json::value* value = member(object, name);
  return value != nullptr ? value->if_object() : nullptr;
}

std::string_view text_in(const json::object& object, std::string_view name) {
  const json::value* value = member(object, name);
  const json::string* text = value != nullptr ? value->if_string() : nullptr;
  return text != nullptr ? std::string_view(*text) : std::string_view{};
}

void BodyReader::read(std::string_view text) {
  text = text.substr(0, kMostBodyBytes);
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error) {
    // A message cut amid a character must not hide the code beside it.
    if (const auto mended = mend_json(text)) value = json::parse(*mended, error);
  }
  if (error) {
    take_message(text);
    return;
  }
  take_value(value);
}

void BodyReader::take_value(const json::value& value) {
  // Google wraps its errors in a list; some answer with a bare text.
  if (const json::array* list = value.if_array(); list != nullptr && !list->empty()) {
    take_value(list->front());
  } else if (const json::string* text = value.if_string()) {
    take_message(*text);
  } else if (const json::object* object = value.if_object()) {
    take_object(*object);
  }
}

void BodyReader::take_object(const json::object& object) {
  if (depth_ >= 4) return;
  ++depth_;
  if (const json::object* response = object_in(object, "response")) take_object(*response);
  if (const json::value* error = member(object, "error")) {
    if (error->is_object()) {
      take_fields(error->get_object());
    } else {
      // Some put a code where others put the message.
      const json::string* word = error->if_string();
      if (word != nullptr && word->size() <= 64 && word->find(' ') == json::string::npos) {
        take_code(error);
      }
      take_value(*error);
    }
  }
  // Cloudflare's list of errors; what some say in place of a message.
  for (const std::string_view name : {"errors", "detail"}) {
    const json::value* value = member(object, name);
    if (value != nullptr && !value->is_string()) take_value(*value);
  }
  if (const json::value* choices = member(object, "choices"); choices != nullptr) {
    const json::array* list = choices->if_array();
    if (list != nullptr && !list->empty() && list->front().is_object()) {
      take_object(list->front().get_object());
    }
  }
  take_fields(object);
  --depth_;
}

void BodyReader::take_fields(const json::object& object) {
  for (const std::string_view name :
       {"code", "type", "status", "reason", "error_code", "error_type", "status_code", "__type"}) {
    take_code(member(object, name));
  }
  if (const json::object* inner = object_in(object, "innererror")) {
    take_code(member(*inner, "code"));
  }
  for (const std::string_view name : {"message", "detail", "error_msg", "msg", "title"}) {
    take_message(text_in(object, name));
  }
  take_hints(object);
}

void BodyReader::take_code(const json::value* code) {
  if (code == nullptr || body_.codes.size() >= kMostCodes) return;
  std::string text;
  if (const std::int64_t* number = code->if_int64()) {
    text = std::to_string(*number);
  } else if (const json::string* string = code->if_string()) {
    text = std::string_view(*string).substr(0, 200);
  }
  // Amazon's names may stand behind their space: "com.amazon.bedrock#ThrottlingException".
  if (const std::size_t mark = text.rfind('#'); mark != std::string::npos) text.erase(0, mark + 1);
  // "error" is the name of the shape, not of a fault.
  if (text.empty() || text == "error") return;
  if (const auto number = parse_integer(text); number && *number >= 400 && *number < 600) {
    if (!body_.status) body_.status = static_cast<int>(*number);
  }
  body_.codes.push_back(std::move(text));
}

void BodyReader::take_message(std::string_view text) {
  if (text.empty()) return;
  const std::string lower = to_lower(text.substr(0, kMostMessageBytes));
  if (!body_.message.empty()) body_.message += '\n';
  if (body_.message.size() < kMostMessageBytes) body_.message += lower;
  take_packed(text);
}

// A gateway's message may hold the provider's whole answer: "x failed - {"error":{...}}".
void BodyReader::take_packed(std::string_view text) {
  const std::size_t brace = text.find('{');
  if (brace == std::string_view::npos || depth_ > 2) return;
  const std::size_t end = text.rfind('}');
  if (end == std::string_view::npos || end < brace) return;
  boost::system::error_code error;
  const json::value value = json::parse(text.substr(brace, end - brace + 1), error);
  if (!error) take_value(value);
}

void BodyReader::take_delay(const json::value* value) {
  if (value == nullptr) return;
  if (const json::string* text = value->if_string()) {
    hint(parse_retry_after(std::string_view(*text), wall_));
  } else if (value->is_number()) {
    const std::string number = value->is_double() ? fmt::format("{}", value->get_double())
                                                  : json::serialize(*value);
    hint(parse_retry_after(number, wall_));
  }
}

void BodyReader::take_hints(const json::object& object) {
  for (const std::string_view name : {"retry_after_ms", "retryAfterMs"}) {
    const json::value* ms = member(object, name);
    if (ms != nullptr && ms->is_number()) hint(parse_retry_after_ms(json::serialize(*ms)));
  }
  for (const std::string_view name :
       {"retry_after_seconds", "retry_after", "retryAfter", "resets_in_seconds", "resets_at",
        "reset_at", "retryDelay", "estimated_time"}) {
    take_delay(member(object, name));
  }
  if (const json::value* details = member(object, "details")) {
    if (const json::array* list = details->if_array()) take_details(*list);
    // Anthropic's.
    if (const json::object* one = details->if_object()) take_code(member(*one, "error_code"));
  }
  if (const json::object* metadata = object_in(object, "metadata")) take_metadata(*metadata);
}

// Google's google.rpc details.
void BodyReader::take_details(const json::array& details) {
  for (const json::value& value : details) {
    const json::object* detail = value.if_object();
    if (detail == nullptr) continue;
    hint(parse_go_duration(text_in(*detail, "retryDelay")));
    take_code(member(*detail, "reason"));
    if (const json::object* metadata = object_in(*detail, "metadata")) {
      hint(parse_go_duration(text_in(*metadata, "quotaResetDelay")));
      take_delay(member(*metadata, "quotaResetTimeStamp"));
    }
    const json::value* violations = member(*detail, "violations");
    const json::array* list = violations != nullptr ? violations->if_array() : nullptr;
    if (list == nullptr) continue;
    for (const json::value& violation : *list) {
      if (const json::object* object = violation.if_object()) {
        take_code(member(*object, "quotaId"));
      }
    }
  }
}

// OpenRouter's, with the error of the provider behind it.
void BodyReader::take_metadata(const json::object& metadata) {
  take_delay(member(metadata, "retry_after_seconds"));
  if (const json::object* headers = object_in(metadata, "headers")) {
    for (const auto& [name, value] : *headers) {
      if (iequals(name, "retry-after") || iequals(name, "x-ratelimit-reset")) take_delay(&value);
    }
  }
  take_code(member(metadata, "error_type"));
  const std::string_view raw = text_in(metadata, "raw");
  if (raw.empty() || depth_ >= 4) return;
  ++depth_;
  read(raw);
  --depth_;
}

ErrorBody read_error_body(const ProviderProfile& provider, std::string_view text, WallTime wall) {
  ErrorBody body;
  BodyReader(body, wall).read(text);
  if (!body.hint) body.hint = delay_in_prose(body.message, wall, provider.clock_offset);
  return body;
}

std::optional<Micros> hint_in_headers(const Headers& headers, WallTime wall) {
  if (const auto value = headers.find("retry-after-ms")) {
    if (const auto delay = parse_retry_after_ms(*value)) return delay;
  }
  if (const auto value = headers.find("retry-after")) return parse_retry_after(*value, wall);
  return std::nullopt;
}

// What fields that are not meant as a hint say all the same: when the window that refused is over.
// Where a bucket is refilled evenly a reset is when all of it is back, which no call has to wait
// for; so only windows that say that they are used up count.
std::optional<Micros> hint_in_windows(const Headers& headers, WallTime wall) {
  std::optional<Micros> latest;
  for (const RateReading& reading : read_rate_headers(headers, wall)) {
    const bool used_up = reading.rejected || reading.used_ppm.value_or(0) >= kMicro;
    if (reading.unit != RateUnit::plan || !used_up || !reading.reset) continue;
    latest = std::max(latest.value_or(Micros{0}), *reading.reset);
  }
  if (latest) return latest;
  struct Window {
    std::string_view sign;
    std::string_view used_up;
    std::string_view reset;
  };
  constexpr std::array<Window, 2> kWindows = {{
      {"anthropic-ratelimit-unified-status", "rejected", "anthropic-ratelimit-unified-reset"},
      {"x-ratelimit-remaining", "0", "x-ratelimit-reset"},
  }};
  for (const Window& window : kWindows) {
    const auto sign = headers.find(window.sign);
    const auto reset = headers.find(window.reset);
    if (!sign || !reset || !iequals(trim(*sign), window.used_up)) continue;
    if (const auto delay = parse_retry_after(*reset, wall)) return delay;
  }
  return std::nullopt;
}

// Amazon names the exception in a field: "ThrottlingException:http://...".
void take_header_code(const Headers& headers, ErrorBody& body) {
  const auto type = headers.find("x-amzn-errortype");
  if (type) body.codes.emplace_back(trim(type->substr(0, type->find(':'))).substr(0, 200));
}

struct Seen {
  int status = 0;  // 200: an error inside a stream that names none.
  const Headers* headers = nullptr;
  const ErrorBody* body = nullptr;
  std::optional<Micros> hint;
  bool said_retry = false;  // x-should-retry: true, which says so without a time.
};

// The code that a rule asks for; nothing when none matches, "" when it asks for none.
std::optional<std::string> matching_code(const RefusalRule& rule, const ErrorBody& body) {
  if (rule.codes.empty()) return "";
  for (const std::string& pattern : rule.codes) {
    for (const std::string& code : body.codes) {
      if (matches_pattern(pattern, code)) return code;
    }
  }
  return std::nullopt;
}

bool header_matches(const RefusalRule& rule, const Headers& headers) {
  if (!rule.lacks_header.empty() && headers.has(rule.lacks_header)) return false;
  if (rule.header.empty()) return true;
  const auto value = headers.find(rule.header);
  return value && (rule.header_value.empty() || iequals(trim(*value), rule.header_value));
}

std::optional<std::string> match(const RefusalRule& rule, const Seen& seen) {
  if (!rule.statuses.empty() &&
      std::ranges::find(rule.statuses, seen.status) == rule.statuses.end()) {
    return std::nullopt;
  }
  if (!rule.texts.empty() && std::ranges::none_of(rule.texts, [&](const std::string& text) {
        return seen.body->message.find(text) != std::string::npos;
      })) {
    return std::nullopt;
  }
  if (!header_matches(rule, *seen.headers)) return std::nullopt;
  const bool told_to_return = seen.hint.has_value() || seen.said_retry;
  if (rule.has_retry_after && *rule.has_retry_after != told_to_return) return std::nullopt;
  if (rule.retry_after_min && (!seen.hint || *seen.hint < *rule.retry_after_min)) {
    return std::nullopt;
  }
  if (rule.retry_after_max && (!seen.hint || *seen.hint > *rule.retry_after_max)) {
    return std::nullopt;
  }
  return matching_code(rule, *seen.body);
}

RefusalKind kind_of(std::string_view means) {
  if (means == "overload") return RefusalKind::overload;
  if (means == "quota") return RefusalKind::quota;
  if (means == "request") return RefusalKind::request;
  return RefusalKind::server;
}

Refusal decide(const ProviderProfile& provider, const Seen& seen) {
  Refusal refusal;
  refusal.retry_after = seen.hint;
  for (const RefusalRule& rule : provider.refusals) {
    if (auto code = match(rule, seen)) {
      refusal.kind = kind_of(rule.means);
      refusal.code = *std::move(code);
      return refusal;
    }
  }
  const bool callers = seen.status >= 400 && seen.status < 500;
  refusal.kind = callers ? RefusalKind::request : RefusalKind::server;
  return refusal;
}

}  // namespace

const char* to_string(RefusalKind kind) {
  switch (kind) {
    case RefusalKind::none: return "none";
    case RefusalKind::overload: return "overload";
    case RefusalKind::quota: return "quota";
    case RefusalKind::request: return "request";
    case RefusalKind::server: return "server";
    case RefusalKind::ours: return "ours";
  }
  return "?";
}

Refusal classify_response(const ProviderProfile& provider, int status, const Headers& headers,
                          std::string_view body, WallTime wall) {
  Refusal refusal;
  const std::optional<Micros> header_hint = hint_in_headers(headers, wall);
  if (const auto own = headers.find(kOwnHeader)) {
    refusal.kind = RefusalKind::ours;
    refusal.code = *own;
    refusal.retry_after = header_hint;
    return refusal;
  }
  if (status < 400) return refusal;
  if (provider.retry_after_marks_own && status == 429 && headers.has("retry-after")) {
    refusal.kind = RefusalKind::ours;
    refusal.retry_after = header_hint;
    return refusal;
  }
  ErrorBody read = read_error_body(provider, body, wall);
  take_header_code(headers, read);
  std::optional<Micros> hint = header_hint ? header_hint : read.hint;
  if (!hint && status == 429) hint = hint_in_windows(headers, wall);
  const auto should_retry = headers.find("x-should-retry");
  const bool said_retry = should_retry && iequals(trim(*should_retry), "true");
  return decide(provider, {status, &headers, &read, hint, said_retry});
}

Refusal classify_stream_error(const ProviderProfile& provider, std::string_view error_json,
                              WallTime wall) {
  const ErrorBody read = read_error_body(provider, error_json, wall);
  const Headers none;
  return decide(provider, {read.status.value_or(200), &none, &read, read.hint, false});
}

}  // namespace hg::wire
