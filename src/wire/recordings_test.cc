// Real traffic, read in place: each test skips where the data is absent.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "wire/dialect.h"
#include "wire/profiles.h"
#include "wire/refusal.h"
#include "wire/retry_after.h"

namespace hg::wire {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr WallTime kNow{Micros{1'789'108'049'000'000}};

fs::path data(std::string_view folder) { return fs::path(HG_SHARED_DIR) / "data" / folder; }

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool present(std::string_view folder) { return fs::exists(data(folder)); }

struct Recording {
  std::string name;
  Endpoint endpoint;
  int status = 0;
  std::string content_type;
  std::string path;
  std::string request;
  std::string response;
  Headers headers;
  json::value usage;  // As another hand read it; null: the provider sent none.
};

std::string path_of(std::string_view url) {
  const std::size_t host = url.find("//");
  const std::size_t path = url.find('/', host == url.npos ? 0 : host + 2);
  return path == url.npos ? "/" : std::string(url.substr(path));
}

std::vector<Recording> recordings() {
  std::vector<Recording> all;
  const fs::path folder = data("recordings");
  const json::value usages = json::parse(slurp(folder / "USAGE.json"));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename();
    if (!file.ends_with(".meta.json")) continue;
    Recording recording;
    recording.name = file.substr(0, file.size() - 10);
    const json::value meta = json::parse(slurp(entry.path()));
    recording.status = static_cast<int>(meta.at("status").as_int64());
    recording.path = path_of(meta.at("url").as_string());
    recording.endpoint = classify("POST", recording.path);
    for (const std::string_view key : {"response_headers", "headers"}) {
      const auto* headers = meta.as_object().if_contains(key);
      if (headers == nullptr || !headers->is_object()) continue;
      for (const auto& [name, value] : headers->as_object()) {
        if (value.is_string()) recording.headers.add(name, std::string_view(value.as_string()));
      }
    }
    recording.content_type = recording.headers.find("content-type").value_or("");
    recording.request = slurp(folder / (recording.name + ".req.json"));
    for (const char* form : {".resp.sse", ".resp.json", ".resp.eventstream"}) {
      const fs::path answer = folder / (recording.name + form);
      if (fs::exists(answer)) recording.response = slurp(answer);
    }
    const auto* usage = usages.as_object().if_contains(recording.name);
    if (usage != nullptr) recording.usage = *usage;
    all.push_back(std::move(recording));
  }
  std::ranges::sort(all, {}, &Recording::name);
  return all;
}

std::optional<Tokens> number(const json::value& object, std::initializer_list<const char*> path) {
  const json::value* at = &object;
  for (const char* key : path) {
    if (!at->is_object()) return std::nullopt;
    at = at->as_object().if_contains(key);
    if (at == nullptr) return std::nullopt;
  }
  if (!at->is_int64()) return std::nullopt;
  return at->as_int64();
}

std::optional<Tokens> first_of(const json::value& object,
                               std::initializer_list<std::initializer_list<const char*>> paths) {
  for (const auto& path : paths) {
    if (const auto found = number(object, path)) return found;
  }
  return std::nullopt;
}

// What the usage object of a recording means, written down apart from the code under test.
UsageReport expected(const json::value& usage) {
  UsageReport report;
  if (!usage.is_object()) return report;
  if (const auto prompt = number(usage, {"promptTokenCount"})) {  // Gemini.
    report.cached = number(usage, {"cachedContentTokenCount"});
    report.uncached = *prompt - report.cached.value_or(0);
    report.reasoning = number(usage, {"thoughtsTokenCount"});
    report.output = *number(usage, {"totalTokenCount"}) - *prompt;
    EXPECT_EQ(*report.output,
              number(usage, {"candidatesTokenCount"}).value_or(0) + report.reasoning.value_or(0));
    return report;
  }
  if (const auto prompt = number(usage, {"inputTokens"})) {  // Amazon's Converse.
    report.cached = number(usage, {"cacheReadInputTokens"});
    report.cache_write = number(usage, {"cacheWriteInputTokens"});
    report.uncached = *prompt + report.cache_write.value_or(0);
    report.output = number(usage, {"outputTokens"});
    return report;
  }
  report.cached = first_of(usage, {{"cache_read_input_tokens"},
                                   {"prompt_tokens_details", "cached_tokens"},
                                   {"input_tokens_details", "cached_tokens"},
                                   {"prompt_cache_hit_tokens"},
                                   {"num_cached_tokens"},
                                   {"cached_tokens"}});
  report.cache_write = first_of(usage, {{"cache_creation_input_tokens"},
                                        {"prompt_tokens_details", "cache_write_tokens"},
                                        {"input_tokens_details", "cache_write_tokens"}});
  report.reasoning = first_of(usage, {{"output_tokens_details", "thinking_tokens"},
                                      {"output_tokens_details", "reasoning_tokens"},
                                      {"completion_tokens_details", "reasoning_tokens"}});
  const auto prompt = first_of(usage,
                               {{"prompt_tokens"}, {"input_tokens"}, {"tokens", "input_tokens"}});
  report.output = first_of(usage,
                           {{"completion_tokens"}, {"output_tokens"}, {"tokens", "output_tokens"}});
  const auto total = number(usage, {"total_tokens"});
  if (total && prompt) report.output = *total - *prompt;
  // Only Anthropic leaves its cache out of the input; it names no total.
  const bool apart = !total && !number(usage, {"tokens", "input_tokens"});
  if (prompt && apart) report.uncached = *prompt + report.cache_write.value_or(0);
  if (prompt && !apart) report.uncached = *prompt - report.cached.value_or(0);
  return report;
}

ResponseReader read(const Recording& recording, std::size_t step) {
  ResponseReader reader(recording.endpoint.dialect, recording.content_type);
  const std::string_view body = recording.response;
  for (std::size_t at = 0; at < body.size(); at += step) reader.feed(body.substr(at, step));
  reader.finish();
  return reader;
}

// The five of Amazon's streams are binary, and USAGE.json does not hold them: read off their bytes.
json::value frames_usage(const std::string& bytes) {
  const std::size_t at = bytes.rfind(R"("usage":{)");
  if (at == std::string::npos) return nullptr;
  std::size_t end = at + 8;
  for (int depth = 0; end < bytes.size(); ++end) {
    depth += bytes[end] == '{' ? 1 : bytes[end] == '}' ? -1 : 0;
    if (depth == 0) break;
  }
  return json::parse(std::string_view(bytes).substr(at + 8, end - at - 7));
}

TEST(RecordingsTest, UsageIsWhatTheProviderSaid) {
  if (!present("recordings")) GTEST_SKIP() << "no recordings beside the repository";
  int with_usage = 0;
  for (Recording& recording : recordings()) {
    const bool frames = recording.content_type.ends_with("eventstream");
    if (frames) recording.usage = frames_usage(recording.response);
    const UsageReport wanted = expected(recording.usage);
    with_usage += wanted.any() ? 1 : 0;
    EXPECT_TRUE(!frames || wanted.any()) << recording.name;
    for (const std::size_t step :
         {recording.response.size() + 1, std::size_t{1}, std::size_t{97}}) {
      const ResponseReader reader = read(recording, step);
      EXPECT_EQ(reader.usage().uncached, wanted.uncached) << recording.name << " by " << step;
      EXPECT_EQ(reader.usage().cached, wanted.cached) << recording.name << " by " << step;
      EXPECT_EQ(reader.usage().output, wanted.output) << recording.name << " by " << step;
      EXPECT_EQ(reader.usage().cache_write, wanted.cache_write) << recording.name << " by " << step;
      EXPECT_EQ(reader.usage().reasoning, wanted.reasoning) << recording.name << " by " << step;
    }
  }
  EXPECT_GE(with_usage, 90);
}

TEST(RecordingsTest, AnswersAreCompleteAndHaveOutput) {
  if (!present("recordings")) GTEST_SKIP() << "no recordings beside the repository";
  for (const Recording& recording : recordings()) {
    if (recording.status != 200) continue;
    const ResponseReader reader = read(recording, 1'000);
    // One stream breaks off with an error that the model caused.
    if (recording.response.find("tool_use_failed") != std::string::npos) {
      EXPECT_TRUE(reader.error_event().has_value()) << recording.name;
      continue;
    }
    // A list of a thread's messages is no answer of a model; Writer's stream has no end but its
    // end.
    if (!recording.endpoint.generates || recording.name == "105_writer_conv_stream") continue;
    EXPECT_TRUE(reader.complete()) << recording.name;
    EXPECT_TRUE(reader.first_event_seen()) << recording.name;
    EXPECT_EQ(reader.output_seen(), reader.usage().output.value_or(1) > 0) << recording.name;
    EXPECT_EQ(reader.error_event(), std::nullopt) << recording.name;
    EXPECT_EQ(reader.streaming(), recording.name.ends_with("_stream")) << recording.name;
  }
}

TEST(RecordingsTest, RequestsAreReadAndTheirSizeFitsTheTokens) {
  if (!present("recordings")) GTEST_SKIP() << "no recordings beside the repository";
  int compared = 0;
  for (const Recording& recording : recordings()) {
    if (recording.request.empty()) continue;
    EXPECT_TRUE(recording.endpoint.generates) << recording.name;
    const auto facts = read_request(recording.endpoint, recording.request);
    ASSERT_TRUE(facts.has_value()) << recording.name << ": " << facts.error().detail;
    EXPECT_EQ(facts->stream, recording.name.ends_with("_stream")) << recording.name;
    EXPECT_FALSE(facts->model.empty()) << recording.name;
    if (recording.endpoint.dialect != Dialect::other) {
      EXPECT_NE(facts->conversation_hash, 0U) << recording.name;
      EXPECT_GT(facts->prefix.size(), 1U) << recording.name;
    }
    const UsageReport wanted = expected(recording.usage);
    const Tokens prompt = wanted.uncached.value_or(0) + wanted.cached.value_or(0);
    if (prompt < 500 || facts->flat_parts > 0) continue;
    // Hidden preambles of tools and searches on the provider's side make tokens out of nothing.
    const double per_token = static_cast<double>(facts->text_chars) / static_cast<double>(prompt);
    RecordProperty(recording.name, std::to_string(per_token));
    EXPECT_LT(per_token, 8.0) << recording.name;
    ++compared;
  }
  EXPECT_GE(compared, 5);
}

TEST(RecordingsTest, EveryTruncationOfAStreamIsSafe) {
  if (!present("recordings")) GTEST_SKIP() << "no recordings beside the repository";
  for (const Recording& recording : recordings()) {
    for (const std::size_t part : {3U, 5U, 9U}) {
      Recording cut = recording;
      cut.response.resize(recording.response.size() * part / 10);
      const ResponseReader reader = read(cut, 1'000);
      const UsageReport whole = expected(recording.usage);
      EXPECT_LE(reader.usage().output.value_or(0), whole.output.value_or(0)) << recording.name;
    }
  }
}

TEST(RecordingsTest, RefusalsInRecordingsAreNotTheCallersFaultOrAre) {
  if (!present("recordings")) GTEST_SKIP() << "no recordings beside the repository";
  for (const Recording& recording : recordings()) {
    const std::string provider = recording.name.substr(4, recording.name.find('_', 4) - 4);
    const ProviderProfile* profile = Profiles::built_in().provider(provider);
    if (profile == nullptr) profile = Profiles::built_in().provider("generic");
    const RefusalKind kind = classify_response(*profile, recording.status, recording.headers,
                                               recording.response, kNow)
                                 .kind;
    const RefusalKind wanted = recording.status == 200   ? RefusalKind::none
                               : recording.status == 429 ? RefusalKind::overload
                                                         : RefusalKind::request;
    EXPECT_EQ(kind, wanted) << recording.name << ": " << to_string(kind);
  }
}

TEST(HarnessRequestsTest, ProgramsAreKnownByWhatTheySend) {
  if (!present("harness_requests")) GTEST_SKIP() << "no harness requests beside the repository";
  const std::map<std::string, std::string> names = {
      {"claude", "claude-code"}, {"cline", "cline"},       {"codex", "codex"},
      {"gemini", "gemini-cli"},  {"opencode", "opencode"}, {"qwen", "qwen-code"}};
  int seen = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(data("harness_requests"))) {
    const std::string file = entry.path().filename();
    if (!file.ends_with(".json")) continue;
    const auto name = names.find(file.substr(0, file.find('-')));
    ASSERT_NE(name, names.end()) << file;
    const json::value events = json::parse(slurp(entry.path()));
    for (const json::value& event : events.as_array()) {
      const auto* fields = event.as_object().if_contains("headers_in_order");
      const auto* line = event.as_object().if_contains("request");
      if (fields == nullptr || line == nullptr) continue;
      Headers headers;
      for (const json::value& field : fields->as_array()) {
        headers.add(field.at(0).as_string(), field.at(1).as_string());
      }
      const std::string_view request = line->as_string();
      const std::string_view method = request.substr(0, request.find(' '));
      const std::string_view path = request.substr(request.find(' ') + 1);
      const Endpoint endpoint = classify(method, path);
      const bool model_call = event.as_object().contains("body_truncated") && method == "POST" &&
                              endpoint.generates;
      if (!model_call) continue;
      ++seen;
      const HarnessProfile& profile = Profiles::built_in().harness_for_request(headers);
      EXPECT_EQ(profile.name, name->second) << file << " " << request;
      const bool known_session = std::ranges::any_of(
          profile.session_headers, [&](const std::string& field) { return headers.has(field); });
      EXPECT_EQ(known_session, !profile.session_headers.empty()) << file;
      if (file.starts_with("claude")) {
        EXPECT_EQ(endpoint.dialect, Dialect::anthropic_messages);
        EXPECT_TRUE(headers.has(profile.timeout_header));
      }
    }
  }
  EXPECT_GE(seen, 15);
}

// What each observed refusal was, by its own description.
RefusalKind wanted_kind(const json::object& row) {
  const std::string dimension(row.at("dimension").as_string());
  const auto* note = row.if_contains("note");
  const std::string why = note != nullptr ? std::string(note->as_string()) : "";
  if (why.find("larger than the whole bucket") != std::string::npos) return RefusalKind::request;
  if (dimension.find("window") != std::string::npos ||
      dimension.find("usage limit") != std::string::npos) {
    return RefusalKind::quota;
  }
  return RefusalKind::overload;
}

TEST(ObservedRefusalsTest, HeadersAndBodiesSeenInPublicAreToldApart) {
  const fs::path file = data("ratelimits") / "observed_429.jsonl";
  if (!fs::exists(file)) GTEST_SKIP() << "no observed refusals beside the repository";
  std::ifstream lines(file);
  int compared = 0;
  for (std::string line; std::getline(lines, line);) {
    const json::object row = json::parse(line).as_object();
    const auto* status = row.if_contains("status");
    const bool has_evidence = row.contains("headers") || row.contains("body");
    if (status == nullptr || !status->is_int64() || status->as_int64() == 200 || !has_evidence) {
      continue;
    }
    const std::string provider(row.at("provider").as_string());
    const std::string profile = provider.starts_with("openai") ? "openai"
                                : provider.starts_with("anthropic")
                                    ? "anthropic"
                                    : (Profiles::built_in().provider(provider) != nullptr
                                           ? provider
                                           : "generic");
    Headers headers;
    if (const auto* fields = row.if_contains("headers")) {
      for (const auto& [name, value] : fields->as_object()) {
        if (value.is_string()) headers.add(name, std::string_view(value.as_string()));
      }
    }
    const auto* body = row.if_contains("body");
    const Refusal refusal = classify_response(*Profiles::built_in().provider(profile),
                                              static_cast<int>(status->as_int64()), headers,
                                              body != nullptr ? json::serialize(*body) : "", kNow);
    EXPECT_EQ(refusal.kind, wanted_kind(row)) << line << " is " << to_string(refusal.kind);
    ++compared;
  }
  EXPECT_GE(compared, 8);
}

TEST(ObservedRefusalsTest, EveryResetAndRetryHeaderIsUnderstood) {
  if (!present("ratelimits")) GTEST_SKIP() << "no rate limit headers beside the repository";
  int understood = 0;
  for (const std::string_view name : {"headers.jsonl", "observed_429.jsonl"}) {
    std::ifstream lines(data("ratelimits") / name);
    for (std::string line; std::getline(lines, line);) {
      const json::object row = json::parse(line).as_object();
      const auto* fields = row.if_contains("headers");
      if (fields == nullptr || !fields->is_object()) continue;
      for (const auto& [field, value] : fields->as_object()) {
        const std::string_view key = field;
        const bool time = key == "retry-after" ||
                          (key.find("reset") != key.npos && key.find("credits") == key.npos);
        if (!time || !value.is_string() || value.as_string().empty()) continue;
        EXPECT_TRUE(parse_retry_after(value.as_string(), kNow).has_value())
            << key << ": " << value.as_string();
        ++understood;
      }
    }
  }
  EXPECT_GE(understood, 500);
}

}  // namespace
}  // namespace hg::wire
