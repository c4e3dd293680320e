// Asking for usage keeps a request what it was and needs no second asking; the filter answers the
// same however a stream is cut, and adds nothing.
#include <fuzzer/FuzzedDataProvider.h>

#include <string>

#include "base/assert.h"
#include "wire/dialect.h"
#include "wire/stream_usage.h"

namespace {

std::string filtered(std::string_view stream, std::size_t step) {
  hg::wire::UsageChunkFilter filter;
  std::string out;
  for (std::size_t at = 0; at < stream.size(); at += step) {
    out += filter.feed(stream.substr(at, step));
  }
  return out + filter.finish();
}

bool is_subsequence(std::string_view part, std::string_view whole) {
  std::size_t at = 0;
  for (const char c : whole) {
    if (at < part.size() && part[at] == c) ++at;
  }
  return at == part.size();
}

void ask(const std::string& body) {
  const auto edit = hg::wire::ask_for_usage(body);
  if (!edit) return;
  const std::string changed = hg::wire::apply(*edit, body);
  HG_ASSERT(!hg::wire::ask_for_usage(changed));
  const auto before = hg::wire::read_request(hg::wire::Dialect::openai_chat, body);
  const auto after = hg::wire::read_request(hg::wire::Dialect::openai_chat, changed);
  if (!before) return;
  HG_ASSERT(after && after->prompt_hash == before->prompt_hash);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const std::size_t step = input.ConsumeIntegralInRange<std::size_t>(1, 16);
  const std::string text = input.ConsumeRemainingBytesAsString();
  ask(text);
  const std::string whole = filtered(text, text.size() + 1);
  HG_ASSERT(whole == filtered(text, step));
  HG_ASSERT(is_subsequence(whole, text));
  return 0;
}
