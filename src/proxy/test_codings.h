// test_codings.h: bytes in the codings of zlib, for the tests of this folder.
//
// Tests only.
#pragma once
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <utility>

namespace hg::proxy {

// `format` and `flush` as zlib names them: 15 + 16 is gzip, 15 zlib, -15 a raw stream; Z_FINISH
// ends it, Z_SYNC_FLUSH lets the reader have all of the text.
inline std::string deflated(std::string text, int format, int flush) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, format, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 1024, ' ');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, flush);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string gzip(std::string text) { return deflated(std::move(text), 15 + 16, Z_FINISH); }

}  // namespace hg::proxy
