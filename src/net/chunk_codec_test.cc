#include "net/chunk_codec.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hg::net {
namespace {

struct Decoded {
  std::string payload;
  std::size_t used = 0;  // Bytes of the pieces that belonged to the body.
  bool ended = false;
};

// Feeds the pieces one after the other; nothing if they are refused.
std::optional<Decoded> decode(const std::vector<std::string_view>& pieces) {
  ChunkDecoder decoder;
  Decoded decoded;
  for (std::string_view piece : pieces) {
    while (!piece.empty() && !decoded.ended) {
      const auto step = decoder.step(piece);
      if (!step) return std::nullopt;
      decoded.payload += step->data;
      decoded.used += step->consumed;
      decoded.ended = step->ended;
      piece.remove_prefix(step->consumed);
    }
  }
  return decoded;
}

TEST(ChunkDecoderTest, ReadsTheSameBodyAtAnyTwoCutPoints) {
  const std::string bytes =
      "5\r\nhello\r\n1;name=\"value\"\r\n \r\n006\r\nwor\r\nd\r\n0;x\r\nTrailer: a\r\nB: c\r\n\r\n";
  const std::string with_rest = bytes + "GET / HTTP/1.1\r\n";
  const std::string_view all(with_rest);
  for (std::size_t first = 0; first <= all.size(); ++first) {
    for (std::size_t second = first; second <= all.size(); ++second) {
      const auto decoded = decode(
          {all.substr(0, first), all.substr(first, second - first), all.substr(second)});
      ASSERT_TRUE(decoded) << first << " " << second;
      EXPECT_EQ(decoded->payload, "hello wor\r\nd") << first << " " << second;
      EXPECT_TRUE(decoded->ended);
      EXPECT_EQ(decoded->used, bytes.size());
    }
  }
}

RC_GTEST_PROP(ChunkDecoderTest, UndoesWhatChunkPrefixDid, (const std::vector<std::string>& parts)) {
  std::string payload;
  std::string bytes;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    payload += part;
    bytes += chunk_prefix(part.size()) + part + "\r\n";
  }
  bytes += kLastChunk;
  std::vector<std::string_view> pieces;
  std::string_view rest(bytes);
  while (!rest.empty()) {
    const auto size = *rc::gen::inRange<std::size_t>(1, rest.size() + 1);
    pieces.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  const auto decoded = decode(pieces);
  RC_ASSERT(decoded.has_value());
  RC_ASSERT(decoded->payload == payload);
  RC_ASSERT(decoded->ended);
}

TEST(ChunkDecoderTest, RefusesWhatIsNoChunk) {
  struct Row {
    const char* why;
    std::string bytes;
  };
  const Row rows[] = {
      {"no size", "\r\n"},
      {"an extension without a size", ";a\r\n"},
      {"a size with a prefix", "0x5\r\nhello\r\n"},
      {"a negative size", "-5\r\n"},
      {"a blank before the size", " 5\r\nhello\r\n"},
      {"a size that is no number", "five\r\n"},
      {"a size that overflows", "10000000000000005\r\nhello\r\n"},
      {"a bare LF after the size", "5\nhello\r\n"},
      {"a bare LF after an extension", "5;a\nhello\r\n"},
      {"a CR without LF after the size", "5\rhello\r\n"},
      {"a chunk longer than its size", "5\r\nhello!\r\n"},
      {"a bare LF after the payload", "5\r\nhello\n0\r\n\r\n"},
      {"a bare LF in a trailer", "0\r\nA: b\n\r\n"},
      {"a bare LF instead of the last line", "0\r\n\n"},
      {"a CR without LF at the end", "0\r\n\rX"},
      {"endless extensions", "5;" + std::string(20'000, 'x')},
      {"endless trailers", "0\r\n" + std::string(20'000, 'x')},
  };
  for (const Row& row : rows) EXPECT_FALSE(decode({row.bytes})) << row.why;
}

TEST(ChunkDecoderTest, DoesNotEndBeforeTheLastLine) {
  const std::string bytes = "5\r\nhello\r\n0\r\nA: b\r\n\r\n";
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    const auto decoded = decode({std::string_view(bytes).substr(0, cut)});
    ASSERT_TRUE(decoded) << cut;
    EXPECT_FALSE(decoded->ended) << cut;
  }
}

}  // namespace
}  // namespace hg::net
