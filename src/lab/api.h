// api.h: which API a request to the emulated provider speaks, and what it wants, by method, path
// and headers.
//
// Reads with eyes of its own, like request_view.h: nothing here is shared with wire/. Pure; any
// thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/headers.h"

namespace hg::lab {

enum class Api : std::uint8_t {
  anthropic_messages,
  openai_chat,
  openai_responses,
  gemini_generate,
};

[[nodiscard]] const char* to_string(Api api);

// What a request wants.
enum class Want : std::uint8_t {
  generate,
  count_tokens,
  list_models,
  side,       // What Codex asks of ChatGPT beside its model calls: plugins, settings, analytics.
  websocket,  // An upgrade: never granted.
  stats,      // /_emulated/...: of the provider itself.
  scale,
  nothing,  // "/": alive.
  unknown,
};

struct Target {
  Api api = Api::openai_chat;  // For `unknown`: whose errors to use, by the headers.
  Want want = Want::unknown;
  std::string path;  // Without the query, doubled slashes and a trailing one.
  // Gemini says these in the path, the others in the body.
  std::string model;
  bool stream = false;
  bool event_stream = false;  // alt=sse; else Gemini streams an array.
};

// `headers` tell the family where the path does not (GET /v1/models).
[[nodiscard]] Target read_target(std::string_view method, std::string_view target,
                                 const Headers& headers);

}  // namespace hg::lab
