#include "wire/dialect.h"

#include <algorithm>
#include <optional>
#include <utility>
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

// What generates, by the last part of the path: plain Completions and their kin, Cohere, Ollama,
// llama.cpp, text-generation servers, Amazon's InvokeModel and Converse.
bool generates_otherwise(std::string_view last) {
  for (const std::string_view verb :
       {"completions", "completion", "complete", "chat", "generate", "generate_stream",
        "generations", "edits", "infill", "converse", "converse-stream", "invoke",
        "invoke-with-response-stream"}) {
    if (last == verb) return true;
  }
  return last.ends_with(":rawPredict") || last.ends_with(":streamRawPredict") ||
         last.ends_with(":predict") || last.ends_with(":generateImages");
}

// What is known to generate nothing, anywhere in the path: lists, counts, stores, and the side
// calls of agents. Embeddings and rankings have limits of their own.
bool passes_free(const std::vector<std::string_view>& segments) {
  for (const std::string_view part : segments) {
    for (const std::string_view word : {"count_tokens",
                                        "input_tokens",
                                        "input_items",
                                        "tokenize",
                                        "detokenize",
                                        "apply-template",
                                        "embeddings",
                                        "embedding",
                                        "embed",
                                        "moderations",
                                        "classify",
                                        "rerank",
                                        "score",
                                        "files",
                                        "uploads",
                                        "batches",
                                        "batch",
                                        "models",
                                        "vector_stores",
                                        "threads",
                                        "assistants",
                                        "fine_tuning",
                                        "evals",
                                        "containers",
                                        "cancel",
                                        "health",
                                        "ping",
                                        "hello",
                                        "metrics",
                                        "event_logging",
                                        "analytics-events",
                                        "telemetry",
                                        "otel",
                                        "traces",
                                        "logs",
                                        "oauth",
                                        "auth",
                                        "token",
                                        "mcp",
                                        "_headgate",
                                        "_emulated"}) {
      if (part == word) return true;
    }
  }
  const std::string_view last = segments.back();
  for (const std::string_view verb :
       {":countTokens", ":computeTokens", ":embedContent", ":batchEmbedContents", ":cancel",
        ":batchGenerateContent", ":loadCodeAssist", ":onboardUser", ":retrieveUserQuota",
        ":recordCodeAssistMetrics", ":recordClientEvent", ":listExperiments"}) {
    if (last.ends_with(verb)) return true;
  }
  return false;
}

// The part after the one of that name; "" when there is none.
std::string_view after(const std::vector<std::string_view>& segments, std::string_view name) {
  for (std::size_t i = 0; i + 1 < segments.size(); ++i) {
    if (segments[i] == name) return segments[i + 1];
  }
  return "";
}

// "models/gemini-3-pro:streamGenerateContent", "publishers/anthropic/models/claude-x:rawPredict".
std::optional<Endpoint> google(const std::vector<std::string_view>& segments, bool posts) {
  const std::string_view last = segments.back();
  const std::size_t colon = last.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view verb = last.substr(colon + 1);
  Endpoint endpoint;
  // Code Assist's "v1internal:generateContent" names its model in the body.
  if (segments.size() > 1) endpoint.model = last.substr(0, colon);
  if (verb == "generateContent" || verb == "streamGenerateContent") {
    endpoint.dialect = Dialect::gemini_generate;
    endpoint.generates = posts;
    endpoint.streams = verb == "streamGenerateContent";
    return endpoint;
  }
  if (verb == "countTokens") {
    endpoint.dialect = Dialect::gemini_generate;
    return endpoint;
  }
  if (verb != "rawPredict" && verb != "streamRawPredict") return std::nullopt;
  // Of another maker's model, in that maker's own shape.
  const std::string_view maker = after(segments, "publishers");
  if (maker == "anthropic") endpoint.dialect = Dialect::anthropic_messages;
  if (maker == "mistralai") endpoint.dialect = Dialect::openai_chat;
  endpoint.generates = posts;
  endpoint.streams = verb == "streamRawPredict";
  return endpoint;
}

}  // namespace

const char* to_string(Dialect dialect) {
  switch (dialect) {
    case Dialect::anthropic_messages: return "anthropic_messages";
    case Dialect::openai_chat: return "openai_chat";
    case Dialect::openai_responses: return "openai_responses";
    case Dialect::gemini_generate: return "gemini_generate";
    case Dialect::other: return "other";
  }
  return "?";
}

Endpoint classify(std::string_view method, std::string_view path) {
  const std::vector<std::string_view> segments = segments_of(path);
  Endpoint endpoint;
  if (segments.empty()) return endpoint;
  const std::string_view last = segments.back();
  const std::string_view before = segments.size() > 1 ? segments[segments.size() - 2] : "";
  const bool posts = method == "POST";

  // /v1/threads/ID/messages is an older API of OpenAI's and generates nothing.
  const bool thread = std::ranges::find(segments, "threads") != segments.end();
  if ((last == "messages" || before == "messages") && !thread) {
    endpoint.dialect = Dialect::anthropic_messages;
    endpoint.generates = posts && last == "messages";
    return endpoint;
  }
  // Azure names the deployment in the path; Amazon the model.
  endpoint.model = after(segments, "deployments");
  if (last == "completions" && before == "chat") {
    endpoint.dialect = Dialect::openai_chat;
    endpoint.generates = posts;
    return endpoint;
  }
  // Codex has its history compacted by a model too.
  if (last == "responses" || before == "responses") {
    endpoint.dialect = Dialect::openai_responses;
    endpoint.generates = posts && (last == "responses" || last == "compact");
    return endpoint;
  }
  if (auto found = google(segments, posts)) return *std::move(found);
  if (endpoint.model.empty()) endpoint.model = after(segments, "model");
  endpoint.streams = last == "converse-stream" || last == "invoke-with-response-stream";
  // InvokeModel takes each maker's own shape.
  const bool invokes = last == "invoke" || last == "invoke-with-response-stream";
  if (invokes && endpoint.model.find("anthropic.") != std::string::npos) {
    endpoint.dialect = Dialect::anthropic_messages;
  }
  // What nobody knows may generate: it is paced by its size.
  endpoint.generates = posts && (generates_otherwise(last) || !passes_free(segments));
  return endpoint;
}

}  // namespace hg::wire
