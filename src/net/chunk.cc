#include "net/chunk.h"

#include <vector>

namespace hg::net {
namespace {

// A chunk and what had come before it. Anything between half of that and all of it is made so
// large; what waits for long takes less and stays small.
constexpr std::size_t kKeptBytes = kChunkBytes + 1024;
constexpr std::size_t kLeastBytes = kKeptBytes / 2;
constexpr std::size_t kMostKept = 32;

std::vector<std::unique_ptr<char[]>>& kept() {
  static thread_local std::vector<std::unique_ptr<char[]>> pieces;
  return pieces;
}

}  // namespace

Piece take_piece(std::size_t& bytes) {
  if (bytes < kLeastBytes || bytes > kKeptBytes) {
    return Piece(std::make_unique_for_overwrite<char[]>(bytes).release(), GiveBack(bytes));
  }
  bytes = kKeptBytes;
  if (kept().empty()) {
    return Piece(std::make_unique_for_overwrite<char[]>(bytes).release(), GiveBack(bytes));
  }
  Piece piece(kept().back().release(), GiveBack(bytes));
  kept().pop_back();
  return piece;
}

void GiveBack::operator()(char* bytes) const {
  std::unique_ptr<char[]> piece(bytes);
  if (size_ == kKeptBytes && kept().size() < kMostKept) kept().push_back(std::move(piece));
}

}  // namespace hg::net
