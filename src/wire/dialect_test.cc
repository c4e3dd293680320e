#include "wire/dialect.h"

#include <gtest/gtest.h>

namespace hg::wire {
namespace {

TEST(ClassifyTest, MethodAndPathTellWhatARequestIs) {
  constexpr Dialect kAnthropic = Dialect::anthropic_messages;
  constexpr Dialect kChat = Dialect::openai_chat;
  constexpr Dialect kResponses = Dialect::openai_responses;
  constexpr Dialect kGemini = Dialect::gemini_generate;
  constexpr Dialect kOther = Dialect::other;
  struct Row {
    std::string_view method;
    std::string_view path;
    Dialect dialect;
    bool generates;
  };
  const Row rows[] = {
      {"POST", "/v1/messages", kAnthropic, true},
      {"POST", "/v1/messages?beta=true", kAnthropic, true},
      {"POST", "//v1/messages", kAnthropic, true},
      {"POST", "/v1/v1/messages", kAnthropic, true},
      {"POST", "/v1//messages/", kAnthropic, true},
      {"POST", "/messages", kAnthropic, true},
      {"POST", "/api/anthropic/v1/messages", kAnthropic, true},
      {"POST", "/v1/messages/count_tokens?beta=true", kAnthropic, false},
      {"POST", "/v1/messages/batches", kAnthropic, false},
      {"GET", "/v1/messages", kAnthropic, false},
      {"HEAD", "/", kOther, false},
      {"HEAD", "/api/hello", kOther, false},
      {"GET", "/v1/models", kOther, false},
      {"POST", "/v1/chat/completions", kChat, true},
      {"POST", "/v1/v1/chat/completions", kChat, true},
      {"POST", "/chat/completions", kChat, true},
      {"POST", "/openai/v1/chat/completions", kChat, true},
      {"POST", "/v1beta/openai/chat/completions", kChat, true},
      {"POST", "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21", kChat, true},
      {"GET", "/v1/chat/completions", kChat, false},
      {"GET", "/v1/chat/completions/chatcmpl-1", kOther, false},
      {"POST", "/v1/threads/t1/messages", kOther, false},
      {"POST", "/v1/responses", kResponses, true},
      {"GET", "/v1/responses", kResponses, false},
      {"POST", "/v1/responses/compact", kResponses, true},
      {"GET", "/v1/responses/resp_1?stream=true", kResponses, false},
      {"DELETE", "/v1/responses/resp_1", kResponses, false},
      {"POST", "/v1/responses/resp_1/cancel", kOther, false},
      {"GET", "/v1/responses/resp_1/input_items", kOther, false},
      {"POST", "/v1/responses/input_tokens", kResponses, false},
      {"POST", "/openai/v1/responses?api-version=preview", kResponses, true},
      {"POST", "/v1/completions", kOther, true},
      {"POST", "/v1beta/models/gemini-3-pro:generateContent", kGemini, true},
      {"POST", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", kGemini, true},
      {"POST", "/v1beta/models/gemini-3-pro:countTokens", kGemini, false},
      {"POST", "/v1beta/models/gemini-3-pro:embedContent", kOther, false},
      {"GET", "/v1beta/models/gemini-3-pro", kOther, false},
      {"POST", "/v1internal:streamGenerateContent?alt=sse", kGemini, true},
      {"POST", "/v1internal:loadCodeAssist", kOther, false},
      {"POST", "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:streamRawPredict",
       kAnthropic, true},
      {"POST", "/v1/projects/p/locations/l/publishers/meta/models/m:rawPredict", kOther, true},
      {"POST", "/model/m/converse-stream", kOther, true},
      {"POST", "/model/m/invoke", kOther, true},
      {"GET", "/model/m/converse", kOther, false},
      {"POST", "/v1/complete", kOther, true},
      {"POST", "/api/generate", kOther, true},
      {"POST", "/a/path/nobody/knows", kOther, true},
      {"POST", "/v2/chat", kOther, true},
      {"POST", "/v1/embeddings", kOther, false},
      {"POST", "/v1/moderations", kOther, false},
      {"POST", "/v1/files", kOther, false},
      {"POST", "", kOther, false},
      {"POST", "/x?y=/v1/messages", kOther, true},
      {"GET", "/x?y=/v1/messages", kOther, false},
      {"POST", "/api/event_logging/batch", kOther, false},
  };
  for (const Row& row : rows) {
    const Endpoint endpoint = classify(row.method, row.path);
    EXPECT_EQ(endpoint.dialect, row.dialect) << row.method << " " << row.path;
    EXPECT_EQ(endpoint.generates, row.generates) << row.method << " " << row.path;
  }
}

TEST(ClassifyTest, ThePathNamesModelAndStreamWhereTheBodyDoesNot) {
  struct Row {
    std::string_view path;
    std::string_view model;
    bool streams;
  };
  const Row rows[] = {
      {"/v1beta/models/gemini-3-pro:generateContent", "gemini-3-pro", false},
      {"/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", "gemini-3-pro", true},
      {"/v1internal:streamGenerateContent", "", true},
      {"/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@2:rawPredict", "claude-x@2",
       false},
      {"/openai/deployments/my-gpt/chat/completions?api-version=1", "my-gpt", false},
      {"/model/us.amazon.nova-lite-v1%3A0/converse-stream", "us.amazon.nova-lite-v1%3A0", true},
      {"/v1/chat/completions", "", false},
  };
  for (const Row& row : rows) {
    const Endpoint endpoint = classify("POST", row.path);
    EXPECT_EQ(endpoint.model, row.model) << row.path;
    EXPECT_EQ(endpoint.streams, row.streams) << row.path;
    EXPECT_TRUE(endpoint.generates) << row.path;
  }
}

}  // namespace
}  // namespace hg::wire
