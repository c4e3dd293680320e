// wire_shapes_more.h: the bytes of OpenAI Responses and Gemini generateContent.
//
// For wire_shapes.cc only, which chooses by the API. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "lab/wire_shapes.h"

namespace hg::lab {

// --- OpenAI Responses ---

[[nodiscard]] std::string responses_body(const Reply& reply);
[[nodiscard]] std::vector<StreamPiece> responses_stream(const Reply& reply,
                                                        std::size_t delta_bytes);
// response.failed with this code. `sequence`: its number in the stream.
[[nodiscard]] std::string responses_failed(const Reply& reply, std::string_view code,
                                           std::string_view message, std::size_t sequence);

// --- Gemini ---

[[nodiscard]] std::string gemini_body(const Reply& reply);
[[nodiscard]] std::vector<StreamPiece> gemini_stream(const Reply& reply, std::size_t delta_bytes);
[[nodiscard]] RefusalText gemini_refusal(RefusalShape shape, const RefusalHints& hints);
[[nodiscard]] RefusalText gemini_client_error(int status, std::string_view message);
[[nodiscard]] std::string gemini_models(const std::vector<std::string>& models);
[[nodiscard]] std::string gemini_token_count(Tokens tokens);

}  // namespace hg::lab
