// How fast prompts are counted and answers are followed: bytes a second.
#include <benchmark/benchmark.h>

#include <string>

#include "wire/dialect.h"

namespace {

std::string anthropic_request(std::size_t bytes) {
  std::string body = R"({"model":"m","max_tokens":1000,"stream":true,"messages":[)";
  const std::string message =
      R"({"role":"user","content":[{"type":"text","text":"int main() {\n  return \"caf\u00e9\";\n}\n)" +
      std::string(2'000, 'x') + R"("}]})";
  while (body.size() < bytes) body += message + ",";
  body.back() = ']';
  return body + "}";
}

void read_request(benchmark::State& state) {
  const std::string body = anthropic_request(std::size_t(state.range(0)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(hg::wire::read_request(hg::wire::Dialect::anthropic_messages, body));
  }
  state.SetBytesProcessed(state.iterations() * std::int64_t(body.size()));
}
BENCHMARK(read_request)->Arg(10'000)->Arg(1'000'000);

void read_stream(benchmark::State& state) {
  std::string text =
      "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":"
      "{\"input_tokens\":12,\"output_tokens\":1}}}\n\n";
  for (int i = 0; i < 1'000; ++i) {
    text +=
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
        "\"delta\":{\"type\":\"text_delta\",\"text\":\" word\"}}\n\n";
  }
  for (auto _ : state) {
    hg::wire::ResponseReader reader(hg::wire::Dialect::anthropic_messages, "text/event-stream");
    reader.feed(text);
    reader.finish();
    benchmark::DoNotOptimize(reader.usage());
  }
  state.SetBytesProcessed(state.iterations() * std::int64_t(text.size()));
}
BENCHMARK(read_stream);

}  // namespace
