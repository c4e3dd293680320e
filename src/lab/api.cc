#include "lab/api.h"

#include "base/text.h"

namespace hg::lab {
namespace {

// "/v1/messages" of "//v1/messages/?beta=true".
std::string path_of(std::string_view target) {
  std::string path;
  for (const char letter : target.substr(0, target.find('?'))) {
    if (letter == '/' && path.ends_with('/')) continue;
    path += letter;
  }
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Api api_by_headers(const Headers& headers) {
  if (headers.has("anthropic-version") || headers.has("x-api-key")) return Api::anthropic_messages;
  if (headers.has("x-goog-api-key")) return Api::gemini_generate;
  return Api::openai_chat;
}

// "/v1beta/models/gemini-3-pro:streamGenerateContent", with any version before /models/.
void read_gemini(std::string_view method, std::string_view query, Target& target) {
  const std::string_view path = target.path;
  const std::size_t models = path.find("/models/");
  const std::size_t colon = path.rfind(':');
  if (method != "POST" || models == std::string_view::npos || colon == std::string_view::npos ||
      colon < models) {
    return;
  }
  const std::string_view verb = path.substr(colon + 1);
  const std::size_t name = models + std::string_view("/models/").size();
  if (verb == "countTokens") {
    target.want = Want::count_tokens;
  } else if (verb == "generateContent" || verb == "streamGenerateContent") {
    target.want = Want::generate;
  } else {
    return;
  }
  target.api = Api::gemini_generate;
  target.model = path.substr(name, colon - name);
  target.stream = verb == "streamGenerateContent";
  target.event_stream = query.contains("alt=sse");
}

bool is_side_path(std::string_view path) {
  for (const std::string_view part : {"/backend-api/", "/wham/", "/ps/", "/codex/"}) {
    if (path.starts_with(part)) return true;
  }
  return false;
}

}  // namespace

const char* to_string(Api api) {
  switch (api) {
    case Api::anthropic_messages: return "anthropic_messages";
    case Api::openai_chat: return "openai_chat";
    case Api::openai_responses: return "openai_responses";
    case Api::gemini_generate: return "gemini_generate";
  }
  return "?";
}

Target read_target(std::string_view method, std::string_view target, const Headers& headers) {
  Target read;
  read.path = path_of(target);
  read.api = api_by_headers(headers);
  const std::size_t mark = target.find('?');
  const std::string_view query = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  std::string_view path = read.path;
  const bool posts = method == "POST";
  const bool reads = method == "GET" || method == "HEAD";

  if (path == "/_emulated/stats" && reads) {
    read.want = Want::stats;
  } else if (path == "/_emulated/scale" && posts) {
    read.want = Want::scale;
  } else if (path == "/" && reads) {
    read.want = Want::nothing;
  }
  if (read.want != Want::unknown) return read;

  read_gemini(method, query, read);
  if (read.want != Want::unknown) return read;
  const bool beta = path.starts_with("/v1beta/");
  if (beta && reads && path.starts_with("/v1beta/models")) {
    read.api = Api::gemini_generate;
    read.want = Want::list_models;
    return read;
  }

  // Codex' login mode has its model calls under /backend-api/codex.
  for (const std::string_view prefix : {"/v1", "/backend-api/codex", "/openai/v1"}) {
    if (path.starts_with(prefix) && path.substr(prefix.size()).starts_with('/')) {
      path.remove_prefix(prefix.size());
      break;
    }
  }
  if (path == "/responses") {
    read.api = Api::openai_responses;
    if (posts) read.want = Want::generate;
    if (reads && headers.has("upgrade")) read.want = Want::websocket;
  } else if (path == "/chat/completions" && posts) {
    read.api = Api::openai_chat;
    read.want = Want::generate;
  } else if (path == "/messages" && posts) {
    read.api = Api::anthropic_messages;
    read.want = Want::generate;
  } else if (path == "/messages/count_tokens" && posts) {
    read.api = Api::anthropic_messages;
    read.want = Want::count_tokens;
  } else if (path == "/models" && reads) {
    read.want = Want::list_models;
  } else if (is_side_path(read.path)) {
    read.want = Want::side;
  }
  return read;
}

}  // namespace hg::lab
