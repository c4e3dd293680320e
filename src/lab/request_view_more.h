// request_view_more.h: the requests that are not made of messages: OpenAI Responses and Gemini
// generateContent.
//
// For request_view.cc only. Each reads into the view that the walker has; Errc::invalid with a
// message as the provider would give it. Pure.
#pragma once
#include <boost/json/object.hpp>

#include "base/result.h"
#include "lab/prompt_walker.h"
#include "lab/request_view.h"

namespace hg::lab {

[[nodiscard]] Result<void> view_responses(const boost::json::object& request, PromptWalker& walker,
                                          RequestView& view);

// Also the body of countTokens.
[[nodiscard]] Result<void> view_gemini(const boost::json::object& request, PromptWalker& walker,
                                       RequestView& view);

}  // namespace hg::lab
