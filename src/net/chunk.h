// chunk.h: memory for bytes under way, which comes and goes with every message.
//
// Pieces of about a chunk are kept for the next one when they are given back, a few of them: the
// heap would have to search for room each time. Thread-safety: a piece is given back on the thread
// that took it.
#pragma once
#include <cstddef>
#include <memory>

namespace hg::net {

inline constexpr std::size_t kChunkBytes = std::size_t{16} * 1024;

class GiveBack {
 public:
  GiveBack() = default;
  explicit GiveBack(std::size_t size) : size_(size) {}
  void operator()(char* bytes) const;

 private:
  std::size_t size_ = 0;
};

// Not a vector: nobody needs zeros.
using Piece = std::unique_ptr<char[], GiveBack>;

// At least `bytes` of memory; `bytes` becomes what there is.
[[nodiscard]] Piece take_piece(std::size_t& bytes);

}  // namespace hg::net
