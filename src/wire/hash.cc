#include "wire/hash.h"

#include <cstring>

namespace hg::wire {
namespace {

// Odd constants without structure (from wyhash's published secret).
constexpr std::uint64_t kFirst = 0xA0761D6478BD642FU;
constexpr std::uint64_t kSecond = 0xE7037ED1A0B428DBU;
constexpr std::uint64_t kThird = 0x8EBC6AF09C88C6E3U;
constexpr std::uint64_t kFourth = 0x589965CC75374CC3U;

// Multiplies to 128 bits and folds: one step mixes 16 bytes.
std::uint64_t mix(std::uint64_t left, std::uint64_t right) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(left) * right;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

std::uint64_t load(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

}  // namespace

void TextHash::add(std::string_view piece) {
  const char* at = piece.data();
  std::size_t left = piece.size();
  std::uint64_t state = state_;
  if (left >= 64) {
    // Three further lanes beside the first: a step waits for the one before it, lanes do not.
    std::uint64_t second = state ^ kSecond;
    std::uint64_t third = state ^ kThird;
    std::uint64_t fourth = state ^ kFourth;
    while (left >= 64) {
      state = mix(load(at) ^ kFirst ^ state, load(at + 8) ^ kSecond);
      second = mix(load(at + 16) ^ kFirst ^ second, load(at + 24) ^ kSecond);
      third = mix(load(at + 32) ^ kFirst ^ third, load(at + 40) ^ kSecond);
      fourth = mix(load(at + 48) ^ kFirst ^ fourth, load(at + 56) ^ kSecond);
      at += 64;
      left -= 64;
    }
    state = mix(state ^ second, kSecond ^ third) ^ mix(fourth, kFirst);
  }
  while (left >= 16) {
    state = mix(load(at) ^ kFirst ^ state, load(at + 8) ^ kSecond);
    at += 16;
    left -= 16;
  }
  char tail[16] = {};
  if (left > 0) std::memcpy(tail, at, left);
  state = mix(load(tail) ^ kFirst ^ state, load(tail + 8) ^ kSecond);
  // The length keeps borders apart and tells zeros of the tail from zeros of the text.
  state_ = mix(state ^ piece.size(), kSecond);
}

void TextHash::add(std::uint64_t number) { state_ = mix(state_ ^ number ^ kFirst, kSecond); }

std::uint64_t TextHash::value() const { return mix(state_ ^ kSecond, kFirst); }

}  // namespace hg::wire
