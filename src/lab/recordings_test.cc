// What real providers put on the wire, recorded, against what wire_shapes writes: the same events,
// fields and header names. Skipped where the recordings are absent.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/text.h"
#include "lab/wire_shapes.h"
#include "wire/sse.h"

namespace hg::lab {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

fs::path recordings() { return fs::path(HG_SOURCE_DIR) / "../shared/data/recordings"; }

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// "message.usage.input_tokens": every path to a field; numbers of arrays left out.
void add_paths(const json::value& value, const std::string& prefix, std::set<std::string>& paths) {
  if (value.is_object()) {
    for (const auto& member : value.get_object()) {
      const std::string path = prefix + "." + std::string(member.key());
      paths.insert(path);
      add_paths(member.value(), path, paths);
    }
  } else if (value.is_array()) {
    for (const json::value& item : value.get_array()) add_paths(item, prefix, paths);
  }
}

// The paths of all events of a stream, under the type of each, and of its end.
std::set<std::string> stream_paths(std::string_view bytes) {
  std::set<std::string> paths;
  wire::SseParser parser([&paths](const wire::SseEvent& event) {
    const std::string type(event.type.empty() ? "data" : event.type);
    boost::system::error_code parse_ec;
    const json::value data = json::parse(event.data, parse_ec);
    if (parse_ec) {
      paths.insert(std::string(event.data));  // [DONE]
    } else {
      add_paths(data, type, paths);
    }
  });
  parser.feed(bytes);
  parser.finish();
  return paths;
}

std::vector<fs::path> recorded(std::string_view name, std::string_view ending) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(recordings())) {
    const std::string file = entry.path().filename().string();
    if (file.contains(name) && file.ends_with(ending)) found.push_back(entry.path());
  }
  return found;
}

Reply reply_with_call() {
  Reply reply;
  reply.id = "0123456789abcdef";
  reply.model = "m";
  reply.answer.text = "A text.";
  reply.answer.calls.push_back({"get_weather", R"({"location":"San Francisco"})"});
  reply.answer.stop = StopReason::tool_use;
  reply.usage.output = 9;
  return reply;
}

class RecordingsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(recordings())) GTEST_SKIP() << "no recorded exchanges at ../shared/data";
  }
};

// Fields that some recordings have and ours need not: tools of the server's own, reasoning, old
// forms.
bool is_optional(std::string_view path) {
  for (const std::string_view part : {"obfuscation",
                                      "citations",
                                      "thinking",
                                      "signature",
                                      "server_tool_use",
                                      "container",
                                      "context_management",
                                      "web_search",
                                      "function_call",
                                      "caller",
                                      "inference_geo",
                                      "logprobs.",
                                      "stop_details",
                                      "refusal_details",
                                      "iterations",
                                      ".content.content",
                                      "tool_use_id",
                                      "content_block.content",
                                      "content_block.data",
                                      "audio",
                                      "reasoning_content",
                                      "output_tokens_details",
                                      "tool_usage",
                                      "moderation",
                                      ".phase",
                                      "reasoning.context",
                                      "reasoning.mode",
                                      "annotation.",
                                      "annotations.",
                                      "response.tools.",
                                      ".queries",
                                      ".results",
                                      "file_search",
                                      "response.queued",
                                      "thought",
                                      "candidatesTokensDetails",
                                      "serviceTier",
                                      "functionCall.args."}) {
    if (path.contains(part)) return true;
  }
  return false;
}

void expect_contains(const std::set<std::string>& ours, const std::set<std::string>& theirs,
                     const fs::path& source) {
  for (const std::string& path : theirs) {
    // The inputs of tools are the caller's.
    if (is_optional(path) || path.contains(".input.")) continue;
    EXPECT_TRUE(ours.contains(path)) << path << " of " << source.filename();
  }
}

TEST_F(RecordingsTest, AnthropicStreamsHaveTheFieldsOfRealOnes) {
  std::string bytes;
  for (const StreamPiece& piece :
       reply_stream(Api::anthropic_messages, reply_with_call(), false, 8)) {
    bytes += piece.bytes;
  }
  const std::set<std::string> ours = stream_paths(bytes);
  const std::vector<fs::path> files = recorded("anthropic_msg_stream", ".resp.sse");
  EXPECT_FALSE(files.empty());
  for (const fs::path& file : files) expect_contains(ours, stream_paths(content_of(file)), file);
}

TEST_F(RecordingsTest, OpenaiStreamsHaveTheFieldsOfRealOnes) {
  std::string bytes;
  for (const StreamPiece& piece : reply_stream(Api::openai_chat, reply_with_call(), true, 8)) {
    bytes += piece.bytes;
  }
  const std::set<std::string> ours = stream_paths(bytes);
  EXPECT_TRUE(ours.contains("[DONE]"));
  const std::vector<fs::path> files = recorded("openai_chat_stream", ".resp.sse");
  EXPECT_FALSE(files.empty());
  for (const fs::path& file : files) expect_contains(ours, stream_paths(content_of(file)), file);
}

TEST_F(RecordingsTest, ResponsesStreamsHaveTheFieldsOfRealOnes) {
  std::string bytes;
  for (const StreamPiece& piece : reply_stream(Api::openai_responses, reply_with_call(), true, 8)) {
    bytes += piece.bytes;
  }
  const std::set<std::string> ours = stream_paths(bytes);
  const std::vector<fs::path> files = recorded("openai_resp_stream", ".resp.sse");
  EXPECT_FALSE(files.empty());
  for (const fs::path& file : files) expect_contains(ours, stream_paths(content_of(file)), file);
}

TEST_F(RecordingsTest, GeminiStreamsHaveTheFieldsOfRealOnes) {
  std::string bytes;
  for (const StreamPiece& piece : reply_stream(Api::gemini_generate, reply_with_call(), true, 8)) {
    bytes += piece.bytes;
  }
  const std::set<std::string> ours = stream_paths(bytes);
  const std::vector<fs::path> files = recorded("gemini_gen_stream", ".resp.sse");
  EXPECT_FALSE(files.empty());
  for (const fs::path& file : files) expect_contains(ours, stream_paths(content_of(file)), file);
}

TEST_F(RecordingsTest, WholeAnswersHaveTheFieldsOfRealOnes) {
  struct Row {
    Api api;
    const char* name;
  };
  for (const Row& row : {Row{Api::anthropic_messages, "anthropic_msg.resp"},
                         Row{Api::openai_chat, "openai_chat.resp"}}) {
    std::set<std::string> ours;
    add_paths(json::parse(reply_body(row.api, reply_with_call())), "", ours);
    const std::vector<fs::path> files = recorded(row.name, ".json");
    EXPECT_FALSE(files.empty());
    for (const fs::path& file : files) {
      std::set<std::string> theirs;
      add_paths(json::parse(content_of(file)), "", theirs);
      expect_contains(ours, theirs, file);
    }
  }
}

TEST_F(RecordingsTest, RateHeadersHaveTheNamesOfRealOnes) {
  struct Row {
    Api api;
    const char* name;
    const char* prefix;
  };
  for (const Row& row :
       {Row{Api::anthropic_messages, "anthropic_msg_stream.meta", "anthropic-ratelimit-"},
        Row{Api::openai_chat, "openai_chat_stream.meta", "x-ratelimit-"}}) {
    Headers headers;
    add_rate_headers(row.api, sim::RateState(), WallTime(), headers);
    std::set<std::string> theirs;
    for (const fs::path& file : recorded(row.name, ".json")) {
      const json::value meta = json::parse(content_of(file));
      for (const auto& member : meta.at("headers").as_object()) theirs.emplace(member.key());
    }
    int ours = 0;
    for (const Header& header : headers.all()) {
      EXPECT_TRUE(theirs.contains(header.name)) << header.name << " is in no recording";
      ++ours;
    }
    for (const std::string& name : theirs) {
      // Output limits and images are none of the emulated ones.
      if (!name.starts_with(row.prefix) || name.contains("output") || name.contains("image")) {
        continue;
      }
      EXPECT_TRUE(headers.has(name)) << name << " is missing";
    }
    EXPECT_GE(ours, 6);
  }
}

}  // namespace
}  // namespace hg::lab
