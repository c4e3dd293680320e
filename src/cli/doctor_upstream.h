// doctor_upstream.h: looks at one upstream: the way to it, its answer to a request that costs
// nothing, and whether the same comes through a gate.
//
// Blocking, with event loops of its own, so that each upstream can have a thread of its own: a
// look-up of a name cannot be stopped, and one that hangs must not hold up the others. Nothing is
// shared between them but the profiles, which nobody changes.
#pragma once
#include <functional>
#include <string>

#include "base/time.h"
#include "cli/config.h"
#include "cli/doctor_findings.h"
#include "proxy/shim_config.h"
#include "wire/profiles.h"

namespace hg::cli {

struct UpstreamJob {
  proxy::Upstream upstream;
  const wire::ProviderProfile* profile = nullptr;
  std::string key_variable;  // Whose key goes along; "" for none.
  std::string key;           // Secret. Sent to this upstream only, and not in the clear.
};

struct UpstreamPlan {
  Config config;
  const wire::Profiles* profiles = nullptr;  // Outlives every job.
  Micros within{3s};                         // For each step.
  bool call = false;  // Also one tiny call that generates, for each dialect: it costs.
  std::string model;  // For these calls; "": a cheap one of the upstream's list.
};

// Says each finding as it is made.
void examine_upstream(const UpstreamJob& job, const UpstreamPlan& plan,
                      const std::function<void(Finding)>& say);

// The head under which the findings of an upstream stand.
[[nodiscard]] std::string about_upstream(const proxy::Upstream& upstream);

}  // namespace hg::cli
