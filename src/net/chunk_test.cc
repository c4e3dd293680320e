#include "net/chunk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hg::net {
namespace {

TEST(ChunkTest, APieceGivenBackIsTheNextOne) {
  std::size_t bytes = kChunkBytes;
  Piece piece = take_piece(bytes);
  EXPECT_GE(bytes, kChunkBytes);
  const char* const where = piece.get();
  piece.reset();
  std::size_t again = kChunkBytes + 512;
  EXPECT_EQ(take_piece(again).get(), where);
  EXPECT_EQ(again, bytes);
}

TEST(ChunkTest, OtherSizesAreWhatWasAskedFor) {
  for (const std::size_t asked :
       {std::size_t{1}, std::size_t{512}, std::size_t{4096}, std::size_t{1} << 20U}) {
    std::size_t bytes = asked;
    const Piece piece = take_piece(bytes);
    EXPECT_EQ(bytes, asked);
    piece[asked - 1] = 'x';
  }
}

TEST(ChunkTest, ManyPiecesAreApart) {
  std::vector<Piece> pieces;
  for (char c = 0; c < 40; ++c) {
    std::size_t bytes = kChunkBytes;
    pieces.push_back(take_piece(bytes));
    std::fill_n(pieces.back().get(), bytes, c);
  }
  for (char c = 0; c < 40; ++c) EXPECT_EQ(pieces[static_cast<std::size_t>(c)][kChunkBytes - 1], c);
}

}  // namespace
}  // namespace hg::net
