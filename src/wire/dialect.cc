#include "wire/dialect.h"

#include <algorithm>
#include <vector>

namespace hg::wire {
namespace {

// The path's parts between slashes, empty ones left out.
std::vector<std::string_view> segments_of(std::string_view path) {
  path = path.substr(0, path.find_first_of("?#"));
  std::vector<std::string_view> segments;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view segment = path.substr(0, slash);
    if (!segment.empty()) segments.push_back(segment);
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return segments;
}

// What the path ends in: "…/responses", "…:generateContent", "…/model/ID/converse-stream".
bool generates_otherwise(std::string_view last, std::string_view before) {
  if (last == "responses" || last == "completions") return true;
  for (const std::string_view verb :
       {":generateContent", ":streamGenerateContent", ":rawPredict", ":streamRawPredict"}) {
    if (last.ends_with(verb)) return true;
  }
  for (const std::string_view verb :
       {"converse", "converse-stream", "invoke", "invoke-with-response-stream"}) {
    if (last == verb) return true;
  }
  // Cohere's /v2/chat, Ollama's /api/chat and /api/generate.
  return (last == "chat" && (before == "v1" || before == "v2" || before == "api")) ||
         (last == "generate" && before == "api");
}

}  // namespace

const char* to_string(Dialect dialect) {
  switch (dialect) {
    case Dialect::anthropic_messages: return "anthropic_messages";
    case Dialect::openai_chat: return "openai_chat";
    case Dialect::other: return "other";
  }
  return "?";
}

Endpoint classify(std::string_view method, std::string_view path) {
  const std::vector<std::string_view> segments = segments_of(path);
  if (segments.empty()) return {};
  const std::string_view last = segments.back();
  const std::string_view before = segments.size() > 1 ? segments[segments.size() - 2] : "";
  const bool posts = method == "POST";

  // /v1/threads/ID/messages is an older API of OpenAI's and generates nothing.
  const bool thread = std::ranges::find(segments, "threads") != segments.end();
  if (last == "messages" && !thread) return {Dialect::anthropic_messages, posts};
  if (before == "messages" && !thread) return {Dialect::anthropic_messages, false};
  if (last == "completions" && before == "chat") return {Dialect::openai_chat, posts};
  return {Dialect::other, posts && generates_otherwise(last, before)};
}

}  // namespace hg::wire
