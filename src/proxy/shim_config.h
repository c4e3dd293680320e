// shim_config.h: what an operator decides about a shim: where calls may go, and which pools they
// draw on. Values only; everything has a default but the upstreams.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "call/estimate.h"
#include "gate/types.h"
#include "net/url.h"

namespace hg::proxy {

// A provider that calls may go to. Requests never name a host: they name one of these, or none.
struct Upstream {
  std::string name;  // In paths, logs and the names of pools: an attribution value (route.h).
  net::Url url;
  std::string profile;  // The provider profile; "": by the URL's host.
};

// A pool that has a name of its own. Calls that no rule is for get a pool by upstream, key and
// model family, which comes to life with its first call.
struct PoolRule {
  std::string name;                      // An attribution value; /pool/NAME in a path forces it.
  std::string upstream;                  // Where its calls go. "": any upstream.
  std::string family;                    // Of the model, as the provider profile names it. "": any.
  bool by_path_only = false;             // Only calls whose path forces it.
  std::optional<gate::Limits> limits;    // Nothing: ShimConfig::start_limits.
  std::optional<gate::Weights> weights;  // Nothing: the provider profile's.
  std::string seed_source = "operator";  // How the pool got its limits, for people.
  // Harness -> head start in the queue (call::Demand::head_start).
  std::map<std::string, Micros, std::less<>> priorities;
};

struct ShimConfig {
  // Unique for ever: a new one each time the program starts. "": made of process and clock.
  std::string id;

  // At least one. A call goes where its path says (/upstream/NAME, else the pool's), else to
  // `default_upstream`, else to the first whose provider speaks the dialect of its path, else to
  // the first.
  std::vector<Upstream> upstreams;
  std::string default_upstream;  // A name of the above, whatever the dialect; "": by dialect.

  std::vector<PoolRule> pools;               // The first that is for a call takes it.
  std::optional<gate::Limits> start_limits;  // Of other pools; nothing: the provider profile's.
  std::size_t pools_max = 1000;              // Past it, new models of an upstream share one pool.

  std::vector<std::string> own_names;  // Host names beside loopback under which it is reached.
  std::string salt;                    // For the hashes of keys and sessions; "": a random one.

  // Calls held at once, in all pools together, and bytes of request bodies in memory: past either,
  // a new call gets a 429 ("queue-full") before its body is read. docs/limits.md.
  std::size_t queue_max = 8'000;
  std::uint64_t bodies_bytes_max = std::uint64_t{2} * 1024 * 1024 * 1024;

  std::size_t body_bytes_max = std::size_t{64} * 1024 * 1024;
  Micros first_byte_within{600s};  // Of an answer; SDKs give up at 600 s themselves.
  Micros silence{600s};            // Between two bytes of an answer.

  call::PatienceLimits patience;
  std::optional<Micros> hold_cap;       // Overrides the harness profiles.
  std::optional<Micros> overload_step;  // Overrides call::Patience::overload_step.
  std::optional<Micros> outage_max;     // Overrides call::Patience::outage_max.
};

}  // namespace hg::proxy
