#include "wire/errors.h"

#include <fmt/core.h>

#include <boost/json.hpp>

namespace hg::wire {
namespace {

namespace json = boost::json;

std::string_view anthropic_type(int status) {
  switch (status) {
    case 400: return "invalid_request_error";
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 504: return "timeout_error";
    default: return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

std::string_view openai_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

// google.rpc's name for it.
std::string_view google_status(int status) {
  switch (status) {
    case 400:
    case 413: return "INVALID_ARGUMENT";
    case 401: return "UNAUTHENTICATED";
    case 403: return "PERMISSION_DENIED";
    case 404: return "NOT_FOUND";
    case 429: return "RESOURCE_EXHAUSTED";
    case 503: return "UNAVAILABLE";
    case 504: return "DEADLINE_EXCEEDED";
    default: return status >= 500 ? "INTERNAL" : "INVALID_ARGUMENT";
  }
}

// Gemini CLI and Google's SDKs read the delay from the body alone.
json::object google_error(int status, std::string_view code, std::string_view text,
                          std::optional<Micros> retry_after) {
  json::array details;
  json::object info;
  info["@type"] = "type.googleapis.com/google.rpc.ErrorInfo";
  info["reason"] = code;
  info["domain"] = "headgate";
  details.push_back(std::move(info));
  if (retry_after) {
    json::object retry;
    retry["@type"] = "type.googleapis.com/google.rpc.RetryInfo";
    retry["retryDelay"] = fmt::format("{}s", (retry_after->count() + 999'999) / 1'000'000);
    details.push_back(std::move(retry));
  }
  json::object error;
  error["code"] = status;
  error["message"] = text;
  error["status"] = google_status(status);
  error["details"] = std::move(details);
  return error;
}

// Text that came from outside may hold anything; a JSON string may not.
std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte >= 0x20 && byte < 0x7F ? c : '?';
  }
  return result;
}

}  // namespace

std::string error_body(Dialect dialect, int status, std::string_view code, std::string_view message,
                       std::optional<Micros> retry_after) {
  std::string text = printable(message);
  if (!text.starts_with("Headgate")) text = "Headgate: " + text;
  const std::string own_code = "headgate_" + printable(code);

  json::object error;
  if (dialect == Dialect::anthropic_messages) {
    error["type"] = anthropic_type(status);
    error["message"] = text;
    error["code"] = own_code;
    return json::serialize(json::object{{"type", "error"}, {"error", std::move(error)}});
  }
  if (dialect == Dialect::gemini_generate) {
    return json::serialize(
        json::object{{"error", google_error(status, own_code, text, retry_after)}});
  }
  error["message"] = text;
  error["type"] = openai_type(status);
  error["param"] = nullptr;
  error["code"] = own_code;
  return json::serialize(json::object{{"error", std::move(error)}});
}

}  // namespace hg::wire
