// rng.h: randomness as an argument: one seed gives one sequence, on every machine and compiler.
//
// The distributions are written out here because those of <random> differ between standard
// libraries. Thread-safety: none; each owner has its own Rng, split off with fork().
#pragma once
#include <cstdint>

namespace hg {

class Rng {
 public:
  explicit Rng(std::uint64_t seed);

  // 64 random bits (xoshiro256**, Blackman and Vigna 2018, seeded by splitmix64).
  [[nodiscard]] std::uint64_t next();

  // Uniform in [0, 1), 53 bits.
  [[nodiscard]] double uniform();

  // Uniform in [low, high).
  [[nodiscard]] double uniform(double low, double high);

  // Uniform in [low, high], both included. low <= high.
  [[nodiscard]] std::int64_t integer(std::int64_t low, std::int64_t high);

  // True with this probability.
  [[nodiscard]] bool chance(double probability);

  // Exponential with this mean: the gaps of a Poisson stream.
  [[nodiscard]] double exponential(double mean);

  // Normal (Box-Muller, one of the pair).
  [[nodiscard]] double normal(double mean, double sigma);

  // exp(normal(mu, sigma)); its median is exp(mu).
  [[nodiscard]] double log_normal(double mu, double sigma);

  // A generator for a part, independent of how much the others draw.
  [[nodiscard]] Rng fork();

 private:
  std::uint64_t state_[4];
};

// A seed from the operating system, for programs that were given none; also for ids and salts.
[[nodiscard]] std::uint64_t os_random_seed();

}  // namespace hg
