// wire_dialect.h: what wire/ calls an API of the lab, for tests that let wire read what the lab
// writes.
//
// For tests only.
#pragma once
#include "lab/api.h"
#include "wire/dialect.h"

namespace hg::lab {

inline wire::Dialect wire_dialect(Api api) {
  switch (api) {
    case Api::anthropic_messages: return wire::Dialect::anthropic_messages;
    case Api::openai_chat: return wire::Dialect::openai_chat;
    case Api::openai_responses: return wire::Dialect::openai_responses;
    case Api::gemini_generate: return wire::Dialect::gemini_generate;
  }
  return wire::Dialect::other;
}

}  // namespace hg::lab
