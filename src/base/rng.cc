#include "base/rng.h"

#include <bit>
#include <cmath>
#include <numbers>
#include <random>

#include "base/assert.h"

namespace hg {
namespace {

std::uint64_t splitmix64(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

}  // namespace

Rng::Rng(std::uint64_t seed) {
  for (std::uint64_t& word : state_) word = splitmix64(seed);
}

std::uint64_t Rng::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17U;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double Rng::uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

double Rng::uniform(double low, double high) { return low + (high - low) * uniform(); }

std::int64_t Rng::integer(std::int64_t low, std::int64_t high) {
  HG_ASSERT(low <= high);
  const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
  if (span == 0) return static_cast<std::int64_t>(next());
  // Rejection keeps it exactly uniform.
  const std::uint64_t limit = ~std::uint64_t{0} - (~std::uint64_t{0} % span);
  std::uint64_t drawn = next();
  while (drawn >= limit) drawn = next();
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + drawn % span);
}

bool Rng::chance(double probability) { return uniform() < probability; }

double Rng::exponential(double mean) { return -mean * std::log1p(-uniform()); }

double Rng::normal(double mean, double sigma) {
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
  return mean + sigma * radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double Rng::log_normal(double mu, double sigma) { return std::exp(normal(mu, sigma)); }

Rng Rng::fork() { return Rng(next()); }

std::uint64_t os_random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

}  // namespace hg
