// A target is refused, or leaves a path of the provider's that was a part of it; joined to a base
// it stays a path.
#include "proxy/route.h"

#include <cstdint>
#include <string_view>

#include "base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view target(reinterpret_cast<const char*>(data), size);
  const auto route = hg::proxy::parse_route(target);
  if (!route) return 0;
  HG_ASSERT(route->target.starts_with('/'));
  HG_ASSERT(route->target == "/" || target.ends_with(route->target.substr(1)));
  const auto& who = route->attribution;
  for (const auto* value : {&who.pool, &who.harness, &who.run, &who.task, &who.upstream}) {
    HG_ASSERT(value->empty() || hg::proxy::valid_attribution(*value));
  }
  for (const std::string_view base : {"", "/v1", "/api/v1"}) {
    const std::string joined = hg::proxy::upstream_target(base, route->target);
    HG_ASSERT(joined.starts_with('/') && joined.size() <= base.size() + route->target.size());
  }
  return 0;
}
