#include "lab/api.h"

#include <gtest/gtest.h>

namespace hg::lab {
namespace {

TEST(ApiTest, MethodPathAndHeadersTellWhatIsWanted) {
  struct Row {
    const char* method;
    const char* target;
    const char* header;
    Api api;
    Want want;
  };
  const Row rows[] = {
      {"POST", "/v1/messages?beta=true", "", Api::anthropic_messages, Want::generate},
      {"POST", "//v1/messages/", "", Api::anthropic_messages, Want::generate},
      {"POST", "/v1/messages/count_tokens", "", Api::anthropic_messages, Want::count_tokens},
      {"POST", "/v1/chat/completions", "", Api::openai_chat, Want::generate},
      {"POST", "/chat/completions", "", Api::openai_chat, Want::generate},
      {"POST", "/v1/responses", "", Api::openai_responses, Want::generate},
      {"POST", "/backend-api/codex/responses", "", Api::openai_responses, Want::generate},
      {"GET", "/v1/responses", "upgrade", Api::openai_responses, Want::websocket},
      {"GET", "/v1/models", "", Api::openai_chat, Want::list_models},
      {"GET", "/v1/models", "anthropic-version", Api::anthropic_messages, Want::list_models},
      {"GET", "/v1beta/models", "", Api::gemini_generate, Want::list_models},
      {"GET", "/backend-api/wham/accounts/check", "", Api::openai_chat, Want::side},
      {"POST", "/backend-api/codex/analytics-events/events", "", Api::openai_chat, Want::side},
      {"GET", "/", "", Api::openai_chat, Want::nothing},
      {"GET", "/_emulated/stats", "", Api::openai_chat, Want::stats},
      {"POST", "/_emulated/scale", "", Api::openai_chat, Want::scale},
      {"GET", "/v1/messages", "", Api::openai_chat, Want::unknown},
      {"GET", "/nowhere", "x-goog-api-key", Api::gemini_generate, Want::unknown},
  };
  for (const Row& row : rows) {
    Headers headers;
    if (*row.header != '\0') headers.add(row.header, "x");
    const Target target = read_target(row.method, row.target, headers);
    EXPECT_EQ(target.api, row.api) << row.target;
    EXPECT_EQ(target.want, row.want) << row.target;
  }
}

TEST(ApiTest, GeminiSaysModelAndStreamInThePath) {
  const Target whole = read_target("POST", "/v1beta/models/gemini-3-pro:generateContent", {});
  EXPECT_EQ(whole.model, "gemini-3-pro");
  EXPECT_EQ(whole.want, Want::generate);
  EXPECT_FALSE(whole.stream);
  const Target stream = read_target(
      "POST", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", {});
  EXPECT_TRUE(stream.stream);
  EXPECT_TRUE(stream.event_stream);
  const Target array = read_target("POST", "/v1/models/m:streamGenerateContent", {});
  EXPECT_TRUE(array.stream);
  EXPECT_FALSE(array.event_stream);
  EXPECT_EQ(read_target("POST", "/v1beta/models/m:countTokens", {}).want, Want::count_tokens);
  EXPECT_EQ(read_target("POST", "/v1beta/models/m:embedContent", {}).want, Want::unknown);
}

}  // namespace
}  // namespace hg::lab
