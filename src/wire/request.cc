// The request half of dialect.h: one walk over the parsed body.
#include <fmt/core.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/dialect.h"
#include "wire/hash.h"
#include "wire/json_mend.h"
#include "wire/json_read.h"
#include "wire/prompt.h"
#include "wire/request_shapes.h"

namespace hg::wire {
namespace {

namespace dom = simdjson::dom;

// The fields of a body that are read; of one that is there twice the last, as providers do.
struct Fields {
  std::optional<dom::element> model;
  std::optional<dom::element> stream;
  std::optional<dom::element> stream_options;
  std::optional<dom::element> messages;
  std::optional<dom::element> system;
  std::optional<dom::element> tools;
  std::optional<dom::element> functions;
  std::optional<dom::element> response_format;
  std::optional<dom::element> output_config;
  std::optional<dom::element> max_tokens;
  std::optional<dom::element> max_completion_tokens;
  std::optional<dom::element> max_output_tokens;
  std::optional<dom::element> max_tokens_to_sample;
  std::optional<dom::element> generation_config;  // Gemini's.

  // Where the field of that name is kept; null for one that is not read.
  std::optional<dom::element>* place(std::string_view name);
};

std::optional<dom::element>* Fields::place(std::string_view name) {
  struct Row {
    std::string_view name;
    std::optional<dom::element> Fields::* field;
  };
  static constexpr std::array<Row, 14> kRows = {
      {{"model", &Fields::model},
       {"stream", &Fields::stream},
       {"stream_options", &Fields::stream_options},
       {"messages", &Fields::messages},
       {"system", &Fields::system},
       {"tools", &Fields::tools},
       {"functions", &Fields::functions},
       {"response_format", &Fields::response_format},
       {"output_config", &Fields::output_config},
       {"max_tokens", &Fields::max_tokens},
       {"max_completion_tokens", &Fields::max_completion_tokens},
       {"max_output_tokens", &Fields::max_output_tokens},
       {"max_tokens_to_sample", &Fields::max_tokens_to_sample},
       {"generationConfig", &Fields::generation_config}}};
  for (const Row& row : kRows) {
    if (row.name == name) return &(this->*row.field);
  }
  return nullptr;
}

Fields fields_of(const dom::object& body) {
  Fields fields;
  for (const auto& [key, value] : body) {
    if (std::optional<dom::element>* place = fields.place(key)) *place = value;
  }
  return fields;
}

std::optional<Tokens> largest_limit(const Fields& fields) {
  std::optional<Tokens> largest;
  const auto consider = [&](const dom::element& value) {
    const std::optional<Tokens> count = declared_count(value);
    if (count && (!largest || *count > *largest)) largest = count;
  };
  for (const auto& field : {fields.max_tokens, fields.max_completion_tokens,
                            fields.max_output_tokens, fields.max_tokens_to_sample}) {
    if (field) consider(*field);
  }
  // Gemini's, in both spellings.
  for (const std::string_view name : {"maxOutputTokens", "max_output_tokens"}) {
    dom::element limit;
    if (fields.generation_config &&
        last_of(*fields.generation_config, name).get(limit) == simdjson::SUCCESS) {
      consider(limit);
    }
  }
  return largest;
}

Result<void> read_head(const Fields& fields, RequestFacts& facts) {
  if (fields.model) {
    std::string_view model;
    if (fields.model->get(model) != simdjson::SUCCESS) {
      return fail(Errc::invalid, "\"model\" must be a string");
    }
    facts.model = model;
  }
  if (bool stream = false; fields.stream && fields.stream->get(stream) == simdjson::SUCCESS) {
    facts.stream = stream;
  }
  if (bool include = false;
      fields.stream_options &&
      last_of(*fields.stream_options, "include_usage").get(include) == simdjson::SUCCESS) {
    facts.asks_stream_usage = include;
  }
  facts.max_output = largest_limit(fields);
  return {};
}

// System and first user message; of the OpenAI dialect all messages up to that one.
std::uint64_t conversation_of(Dialect dialect, const Fields& fields, const dom::array& messages) {
  Prompt prompt(dialect, "", 1);
  if (fields.system) prompt.system(*fields.system);
  for (const dom::element element : messages) {
    dom::object message;
    if (element.get(message) != simdjson::SUCCESS) continue;
    const std::string_view role = string_of(last_of(message, "role"));
    const bool user = role != "system" && role != "developer";
    // Anthropic's system role inside the messages follows the first user message in practice.
    if (!user && dialect == Dialect::anthropic_messages) continue;
    prompt.message(message);
    if (user) break;
  }
  return prompt.hash();
}

Result<void> read_chat(Dialect dialect, const Fields& fields, RequestFacts& facts) {
  dom::array messages;
  if (!fields.messages || fields.messages->get(messages) != simdjson::SUCCESS) {
    return fail(Errc::invalid, "\"messages\" must be a list");
  }
  TextHash model_hash;
  model_hash.add(facts.model);
  Prompt prompt(dialect, facts.model, model_hash.value());

  // The order in which providers lay a prompt out, and with which caches break.
  for (const auto& field : {fields.tools, fields.functions}) {
    if (field) prompt.structured(*field);
  }
  prompt.mark("system");
  if (fields.system) prompt.system(*fields.system);
  for (const auto& field : {fields.response_format, fields.output_config}) {
    if (!field) continue;
    dom::element schema;
    if (last_of(*field, "json_schema").get(schema) == simdjson::SUCCESS ||
        last_of(*field, "format").get(schema) == simdjson::SUCCESS) {
      prompt.structured(schema);
    }
  }
  facts.prefix.reserve(std::min(messages.size() + 1, kMostBlocks));
  end_block(prompt, facts);

  for (const dom::element element : messages) {
    dom::object message;
    if (element.get(message) != simdjson::SUCCESS) {
      return fail(Errc::invalid, "every one of \"messages\" must be an object");
    }
    prompt.message(message);
    end_block(prompt, facts);
  }
  end_prompt(prompt, facts);
  facts.conversation_hash = conversation_of(dialect, fields, messages);
  return {};
}

// What declares an output limit inside another object, in no dialect of ours: Converse, Nova,
// Titan, Ollama, SGLang, text-generation servers.
struct NestedLimit {
  std::string_view outer;
  std::string_view inner;
};
constexpr std::array<NestedLimit, 7> kNestedLimits = {{{"inferenceConfig", "maxTokens"},
                                                       {"inferenceConfig", "max_new_tokens"},
                                                       {"textGenerationConfig", "maxTokenCount"},
                                                       {"options", "num_predict"},
                                                       {"sampling_params", "max_new_tokens"},
                                                       {"parameters", "max_new_tokens"},
                                                       {"parameters", "maxOutputTokens"}}};

void read_other_limits(const dom::object& body, RequestFacts& facts) {
  const auto consider = [&](const Found& value) {
    dom::element limit;
    if (value.get(limit) != simdjson::SUCCESS) return;
    const std::optional<Tokens> count = declared_count(limit);
    if (count && (!facts.max_output || *count > *facts.max_output)) facts.max_output = count;
  };
  for (const NestedLimit& limit : kNestedLimits) {
    consider(last_of(last_of(body, limit.outer), limit.inner));
  }
  // Llama at Amazon, llama.cpp, others' plain bodies.
  for (const std::string_view name : {"max_gen_len", "n_predict", "max_new_tokens"}) {
    consider(last_of(body, name));
  }
}

// A shape that is not understood: all of its text, so that a call is paced by its size.
void read_other(const dom::object& body, RequestFacts& facts) {
  Prompt prompt(Dialect::other, facts.model, 2);
  for (const auto& [key, value] : body) {
    if (one_of(key, {"model", "stream", "metadata", "user", "client_metadata", "prompt_cache_key",
                     "safety_identifier", "previous_response_id", "anthropic_version"})) {
      continue;
    }
    if (key == "tools") {
      prompt.structured(value);
    } else {
      prompt.loose(value);
    }
  }
  end_prompt(prompt, facts);
}

}  // namespace

void end_block(const Prompt& prompt, RequestFacts& facts) {
  if (facts.prefix.size() >= kMostBlocks) return;
  facts.prefix.push_back({prompt.hash(), prompt.chars(), prompt.flat_tokens()});
}

void end_prompt(const Prompt& prompt, RequestFacts& facts) {
  facts.text_chars = prompt.chars();
  facts.flat_tokens = prompt.flat_tokens();
  facts.flat_parts = prompt.flat_parts();
  facts.prompt_hash = prompt.hash();
}

Result<RequestFacts> read_request(Dialect dialect, std::string_view body) {
  Endpoint endpoint;
  endpoint.dialect = dialect;
  return read_request(endpoint, body);
}

Result<RequestFacts> read_request(const Endpoint& endpoint, std::string_view body) {
  if (body.empty()) return fail(Errc::invalid, "the body is empty");
  KeptParser parser;
  dom::element root;
  auto error = parser.parse(body).get(root);
  if (error != simdjson::SUCCESS) {
    // More than this parser takes is not yet wrong: the provider may take it.
    const std::optional<std::string> mended = mend_json(body);
    if (mended) error = parser.parse(*mended).get(root);
  }
  if (error != simdjson::SUCCESS) {
    return fail(Errc::invalid,
                fmt::format("the body is not valid JSON: {}", simdjson::error_message(error)));
  }
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return fail(Errc::invalid, "the body must be a JSON object");
  }
  // Google's Code Assist wraps the request and names the model beside it.
  dom::object inner = object;
  if (endpoint.dialect == Dialect::gemini_generate) {
    if (dom::object wrapped; last_of(object, "request").get(wrapped) == simdjson::SUCCESS) {
      inner = wrapped;
    }
  }
  Fields fields = fields_of(object);
  for (const std::string_view name : {"generation_config", "generationConfig"}) {
    if (dom::element config; last_of(inner, name).get(config) == simdjson::SUCCESS) {
      fields.generation_config = config;
    }
  }

  RequestFacts facts;
  if (auto head = read_head(fields, facts); !head) return std::unexpected(head.error());
  // Gemini's body may name the model too; the path decides. Elsewhere it only fills the gap.
  const bool by_path = endpoint.dialect == Dialect::gemini_generate && !endpoint.model.empty();
  if (by_path || facts.model.empty()) facts.model = endpoint.model;
  facts.stream = facts.stream || endpoint.streams;

  Result<void> prompt;
  switch (endpoint.dialect) {
    case Dialect::anthropic_messages:
    case Dialect::openai_chat: prompt = read_chat(endpoint.dialect, fields, facts); break;
    case Dialect::openai_responses: prompt = read_responses(object, facts); break;
    case Dialect::gemini_generate: prompt = read_gemini(inner, facts); break;
    case Dialect::other:
      read_other_limits(object, facts);
      if (is_converse(object)) {
        read_converse(object, facts);
      } else {
        read_other(object, facts);
      }
      break;
  }
  if (!prompt) return std::unexpected(prompt.error());
  return facts;
}

}  // namespace hg::wire
