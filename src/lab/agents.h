// agents.h: one attempt of a model agent over real HTTP: its policy (sim/model_agent.h) decides,
// this sends what it asks for and says how it went.
//
// Requests have the dialect, headers and growing conversation of the harness that the policy is
// modelled on. Everything that an agent received is counted, Headgate's own refusals apart from
// those that came from the provider. One thread.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/time.h"
#include "base/units.h"
#include "net/client.h"
#include "net/task.h"
#include "sim/model_agent.h"
#include "wire/dialect.h"

namespace hg::lab {

// What a harness puts on the wire.
struct AgentWire {
  std::string profile;  // The harness profile that it goes by in paths.
  wire::Dialect dialect = wire::Dialect::openai_chat;
  std::string model;
  std::string user_agent;
  std::string session_header;  // Names the conversation; "": none.
  std::string timeout_header;  // Announces the header timeout in seconds; "": none.
};
// By the name of the habits; unknown names speak plain Chat Completions.
[[nodiscard]] AgentWire wire_of(std::string_view harness);

// Bytes of text for each token that a prompt block is to have.
inline constexpr double kBytesPerToken = 4.3;

// The request body of an attempt. Equal calls give equal bytes; a later turn of the same
// conversation shares the text of all earlier blocks.
[[nodiscard]] std::string request_body(const AgentWire& wire, const sim::AgentCall& call,
                                       double bytes_per_token = kBytesPerToken);

// What agents received, added up.
struct AgentCounts {
  std::int64_t calls = 0;                 // Attempts sent.
  std::int64_t answered = 0;              // Whole answers.
  Tokens tokens = 0;                      // Prompt and output of whole answers, as usage says.
  std::map<int, std::int64_t> by_status;  // Every answer that was no 200.
  std::int64_t refusals = 0;       // Every 429, 503 and 529, and overloads inside a 200; ours among
                                   // them.
  std::int64_t refused_by_us = 0;  // Those of them that carry Headgate's header.
  std::int64_t stream_errors = 0;
  std::int64_t timeouts = 0;  // The agent's own.
  std::int64_t cut = 0;       // Lost connections.
};

// How an agent reaches the provider. `base` may carry a path prefix. All that is pointed to
// outlives the attempts.
struct AgentLink {
  net::Client* client = nullptr;
  const Clock* clock = nullptr;
  net::Url base;
  AgentWire wire;
  std::string session;  // The value of the session header.
  std::string key = "sk-emulated";
  double bytes_per_token = kBytesPerToken;
  AgentCounts* counts = nullptr;
  net::ClientExchange* exchange = nullptr;  // The one open now; null between attempts.
};

// Sends one attempt and waits for its end. Its owner may close `link.exchange` meanwhile: the
// attempt then ends as `cut`.
[[nodiscard]] net::Task<sim::AgentOutcome> attempt(AgentLink& link, const sim::AgentCall& call);

}  // namespace hg::lab
