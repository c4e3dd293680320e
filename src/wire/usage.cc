#include "wire/usage.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace hg::wire {

namespace dom = simdjson::dom;

namespace {

std::optional<Tokens> count_of(const Found& value) {
  if (std::int64_t number = 0; value.get(number) == simdjson::SUCCESS) {
    if (number < 0 || number > kMaxExact) return std::nullopt;
    return number;
  }
  if (double number = 0; value.get(number) == simdjson::SUCCESS) {
    // Some gateways write counts as 12.0.
    if (!(number >= 0) || number > static_cast<double>(kMaxExact)) return std::nullopt;
    return static_cast<Tokens>(std::llround(number));
  }
  return std::nullopt;
}

std::optional<Tokens> first_count(std::initializer_list<Found> places) {
  for (const Found& place : places) {
    if (const auto count = count_of(place)) return count;
  }
  return std::nullopt;
}

void set(std::optional<Tokens>& field, const std::optional<Tokens>& reported) {
  if (reported) field = reported;
}

bool has(const dom::object& usage, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(
      names, [&](std::string_view name) { return usage[name].error() == simdjson::SUCCESS; });
}

}  // namespace

namespace {

// Anthropic's counts, of a whole answer or of one of its iterations.
struct AnthropicCounts {
  std::optional<Tokens> prompt;
  std::optional<Tokens> cached;
  std::optional<Tokens> cache_write;
  std::optional<Tokens> output;
};

AnthropicCounts anthropic_counts(const dom::object& usage) {
  AnthropicCounts counts;
  counts.prompt = count_of(usage["input_tokens"]);
  counts.cached = count_of(usage["cache_read_input_tokens"]);
  counts.cache_write = count_of(usage["cache_creation_input_tokens"]);
  counts.output = count_of(usage["output_tokens"]);
  if (!counts.cache_write) {
    const Found parts = usage["cache_creation"];
    const auto short_lived = count_of(parts["ephemeral_5m_input_tokens"]);
    const auto long_lived = count_of(parts["ephemeral_1h_input_tokens"]);
    if (short_lived || long_lived) {
      counts.cache_write = short_lived.value_or(0) + long_lived.value_or(0);
    }
  }
  return counts;
}

void add(std::optional<Tokens>& sum, const std::optional<Tokens>& part) {
  if (part) sum = sum.value_or(0) + *part;
}

}  // namespace

void UsageCounts::read_anthropic(const dom::object& usage) {
  cache_apart_ = true;
  auto [prompt, cached, cache_write, output] = anthropic_counts(usage);
  // A compaction counts to the limits and the bill, and is left out of the sums; an adviser is
  // another model's. What its messages used is in the sums.
  if (dom::array iterations; usage["iterations"].get(iterations) == simdjson::SUCCESS) {
    for (const dom::element element : iterations) {
      dom::object iteration;
      if (element.get(iteration) != simdjson::SUCCESS) continue;
      if (string_of(iteration["type"]) != "compaction") continue;
      const AnthropicCounts part = anthropic_counts(iteration);
      add(prompt, part.prompt);
      add(cached, part.cached);
      add(cache_write, part.cache_write);
      add(output, part.output);
    }
  }
  // Some gateways restate zeros at the end: a prompt of nothing takes no count back.
  if (!prompt_ || prompt.value_or(0) + cache_write.value_or(0) + cached.value_or(0) > 0) {
    set(prompt_, prompt);
    set(cache_write_, cache_write);
    set(cached_, cached);
  }
  set(output_, output);
  set(reasoning_, count_of(usage["output_tokens_details"]["thinking_tokens"]));
}

void UsageCounts::read_openai(const dom::object& usage) {
  cache_apart_ = false;
  // The second name is that of gateways and of the Responses API, the third Cohere's.
  const auto prompt = first_count(
      {usage["prompt_tokens"], usage["input_tokens"], usage["tokens"]["input_tokens"]});
  set(prompt_, prompt);
  set(cached_, first_count({usage["prompt_tokens_details"]["cached_tokens"],
                            usage["prompt_token_details"]["cached_tokens"],  // Mistral's spelling.
                            usage["input_tokens_details"]["cached_tokens"],
                            usage["prompt_cache_hit_tokens"],  // DeepSeek.
                            usage["num_cached_tokens"],        // Mistral.
                            usage["cached_tokens"]}));         // Moonshot, Together, Cohere.
  set(cache_write_, first_count({usage["prompt_tokens_details"]["cache_write_tokens"],
                                 usage["input_tokens_details"]["cache_write_tokens"],
                                 usage["cache_creation_input_tokens"]}));  // LiteLLM's.
  const auto reasoning = first_count({usage["completion_tokens_details"]["reasoning_tokens"],
                                      usage["output_tokens_details"]["reasoning_tokens"],
                                      usage["reasoning_tokens"]});
  set(reasoning_, reasoning);
  auto output = first_count(
      {usage["completion_tokens"], usage["output_tokens"], usage["tokens"]["output_tokens"]});
  // xAI leaves the reasoning out of the output, but not out of the total.
  if (const auto total = count_of(usage["total_tokens"]); total && prompt && *total >= *prompt) {
    output = std::max(output.value_or(0), *total - *prompt);
  } else if (output && reasoning.value_or(0) > *output) {
    *output += *reasoning;  // More of it than there is.
  }
  set(output_, output);
}

void UsageCounts::read_gemini(const dom::object& usage) {
  cache_apart_ = false;
  // What its own tools put into the prompt is counted beside it.
  const auto prompt = count_of(usage["promptTokenCount"]);
  const Tokens by_tools = count_of(usage["toolUsePromptTokenCount"]).value_or(0);
  if (prompt) prompt_ = *prompt + by_tools;
  set(cached_, count_of(usage["cachedContentTokenCount"]));
  const auto thoughts = count_of(usage["thoughtsTokenCount"]);
  set(reasoning_, thoughts);
  std::optional<Tokens> output = count_of(usage["candidatesTokenCount"]);
  if (thoughts) output = output.value_or(0) + *thoughts;
  // Without candidates (all of it was thought, or blocked) the total tells.
  const auto total = count_of(usage["totalTokenCount"]);
  if (total && prompt && *total >= *prompt + by_tools) {
    output = std::max(output.value_or(0), *total - *prompt - by_tools);
  }
  set(output_, output);
}

void UsageCounts::read_bedrock(const dom::object& usage) {
  cache_apart_ = true;
  set(prompt_, first_count({usage["inputTokens"], usage["inputTokenCount"]}));
  set(output_, first_count({usage["outputTokens"], usage["outputTokenCount"]}));
  set(cached_, first_count({usage["cacheReadInputTokens"], usage["cacheReadInputTokenCount"]}));
  set(cache_write_,
      first_count({usage["cacheWriteInputTokens"], usage["cacheWriteInputTokenCount"]}));
}

// Google's Interactions: as generateContent, in words of its own.
void UsageCounts::read_interactions(const dom::object& usage) {
  cache_apart_ = false;
  const Tokens by_tools = count_of(usage["total_tool_use_tokens"]).value_or(0);
  if (const auto prompt = count_of(usage["total_input_tokens"])) prompt_ = *prompt + by_tools;
  set(cached_, count_of(usage["total_cached_tokens"]));
  const auto thoughts = count_of(usage["total_thought_tokens"]);
  set(reasoning_, thoughts);
  std::optional<Tokens> output = count_of(usage["total_output_tokens"]);
  add(output, thoughts);
  set(output_, output);
}

void UsageCounts::read_beside(const dom::object& answer) {
  // llama.cpp tells what it reused apart from what it read, also where no usage was asked for.
  if (dom::object timings; answer["timings"].get(timings) == simdjson::SUCCESS) {
    const auto read_anew = count_of(timings["prompt_n"]);
    const auto reused = count_of(timings["cache_n"]);
    if (!prompt_ && read_anew) prompt_ = *read_anew + reused.value_or(0);
    if (!cached_) set(cached_, reused);
    if (!output_) set(output_, count_of(timings["predicted_n"]));
    return;
  }
  set(prompt_, first_count({answer["prompt_eval_count"],       // Ollama.
                            answer["prompt_token_count"],      // Llama.
                            answer["inputTextTokenCount"]}));  // Titan.
  set(output_,
      first_count({answer["eval_count"], answer["generation_token_count"],
                   answer["results"].at(0)["tokenCount"], answer["details"]["generated_tokens"]}));
}

void UsageCounts::read(Dialect dialect, const dom::object& usage) {
  if (has(usage, {"promptTokenCount", "candidatesTokenCount", "totalTokenCount"})) {
    read_gemini(usage);
  } else if (has(usage, {"inputTokens", "outputTokens", "inputTokenCount"})) {
    read_bedrock(usage);
  } else if (has(usage, {"total_input_tokens", "total_output_tokens"})) {
    read_interactions(usage);
  } else if (dialect == Dialect::anthropic_messages ||
             (dialect == Dialect::other &&
              has(usage, {"cache_read_input_tokens", "cache_creation_input_tokens"}))) {
    read_anthropic(usage);
  } else {
    read_openai(usage);
  }
}

UsageReport UsageCounts::report() const {
  UsageReport report;
  report.cached = cached_;
  report.cache_write = cache_write_;
  report.output = output_;
  report.reasoning = reasoning_;
  if (cache_apart_) {
    if (prompt_ || cache_write_) report.uncached = prompt_.value_or(0) + cache_write_.value_or(0);
  } else if (prompt_) {
    report.uncached = std::max(Tokens{0}, *prompt_ - cached_.value_or(0));
  }
  return report;
}

}  // namespace hg::wire
