// usage.h: what usage objects of every provider say, brought to one meaning.
//
// Counts are set, never added: absent, null, negative or not a number is no report and leaves what
// was there; zero is a report. The shape is told by the names in the object, because gateways
// answer one dialect with another's usage. Pure; a value type.
#pragma once
#include <simdjson.h>

#include <optional>

#include "base/units.h"
#include "wire/dialect.h"
#include "wire/json_read.h"

namespace hg::wire {

class UsageCounts {
 public:
  // One usage object; `dialect` decides where names alone do not.
  void read(Dialect dialect, const simdjson::dom::object& usage);

  // An answer, or an event of one, whose counts stand beside it instead of in an object of their
  // own: llama.cpp, Ollama, Llama and Titan at Amazon, text-generation servers.
  void read_beside(const simdjson::dom::object& answer);

  [[nodiscard]] UsageReport report() const;

 private:
  void read_anthropic(const simdjson::dom::object& usage);
  void read_openai(const simdjson::dom::object& usage);
  void read_gemini(const simdjson::dom::object& usage);
  void read_bedrock(const simdjson::dom::object& usage);
  void read_interactions(const simdjson::dom::object& usage);

  std::optional<Tokens> prompt_;
  std::optional<Tokens> cached_;
  std::optional<Tokens> cache_write_;
  std::optional<Tokens> output_;
  std::optional<Tokens> reasoning_;
  bool cache_apart_ = false;  // `prompt_` leaves out what was read from and written to the cache.
};

}  // namespace hg::wire
