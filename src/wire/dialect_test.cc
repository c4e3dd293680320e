#include "wire/dialect.h"

#include <gtest/gtest.h>

namespace hg::wire {
namespace {

TEST(ClassifyTest, MethodAndPathTellWhatARequestIs) {
  constexpr Dialect kAnthropic = Dialect::anthropic_messages;
  constexpr Dialect kChat = Dialect::openai_chat;
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
      {"POST", "/v1/responses", kOther, true},
      {"GET", "/v1/responses", kOther, false},
      {"POST", "/v1/completions", kOther, true},
      {"POST", "/v1beta/models/gemini-3-pro:generateContent", kOther, true},
      {"POST", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", kOther, true},
      {"POST", "/v1beta/models/gemini-3-pro:countTokens", kOther, false},
      {"POST", "/model/m/converse-stream", kOther, true},
      {"POST", "/v2/chat", kOther, true},
      {"POST", "/v1/embeddings", kOther, false},
      {"POST", "/v1/moderations", kOther, false},
      {"POST", "/v1/files", kOther, false},
      {"POST", "", kOther, false},
      {"POST", "/x?y=/v1/messages", kOther, false},
  };
  for (const Row& row : rows) {
    const Endpoint endpoint = classify(row.method, row.path);
    EXPECT_EQ(endpoint.dialect, row.dialect) << row.method << " " << row.path;
    EXPECT_EQ(endpoint.generates, row.generates) << row.method << " " << row.path;
  }
}

}  // namespace
}  // namespace hg::wire
