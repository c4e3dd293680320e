#include "gate/local_schedule.h"

#include <algorithm>
#include <cmath>

#include "gate/limits.h"

namespace hg::gate {
namespace {

constexpr double kMargin = 0.9;
constexpr double kLeastShare = 0.1;      // Divided by the number of shims.
constexpr double kRoundingNoise = 1e-3;  // Microseconds.

}  // namespace

LocalSchedule::LocalSchedule(Micros minimum_gap) : minimum_gap_(minimum_gap) {}

void LocalSchedule::told(std::int64_t share_ppm, std::int64_t shims, const Limits& limits) {
  const double least = kLeastShare / static_cast<double>(std::max<std::int64_t>(shims, 1));
  const double told_share = static_cast<double>(share_ppm) / static_cast<double>(kMicro);
  const double part = kMargin * std::clamp(told_share, least, 1.0);
  rates_ = Rates{part * static_cast<double>(limits.r_tok),
                 part * static_cast<double>(limits.r_qps) / static_cast<double>(kMicro)};
}

Micros LocalSchedule::gap_after(Tokens charge) const {
  if (!rates_) return minimum_gap_;
  const double seconds = std::max(static_cast<double>(charge) / rates_->tokens_per_second,
                                  1.0 / rates_->requests_per_second);
  const double micros = std::min(seconds, to_seconds(kWaitMax)) * 1e6;
  return Micros{static_cast<std::int64_t>(std::ceil(micros - kRoundingNoise))};
}

void LocalSchedule::sent(Tokens charge, Instant now) {
  next_at_ = std::max(next_at_, now + gap_after(charge));
}

}  // namespace hg::gate
