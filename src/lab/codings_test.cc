#include "lab/codings.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

namespace hg::lab {
namespace {

std::string packed(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string text_of_bytes(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "every word of it ";
  return text;
}

// What a reader has after these bytes of a gzip stream.
struct Unzipped {
  std::string text;
  bool ended = false;  // And its checksum is right.
};

Unzipped unzipped(std::string bytes, std::size_t bytes_max) {
  Unzipped out;
  out.text.resize(bytes_max);
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.text.data());
  stream.avail_out = static_cast<uInt>(out.text.size());
  const int said = inflate(&stream, Z_SYNC_FLUSH);
  EXPECT_TRUE(said == Z_OK || said == Z_STREAM_END) << said;
  out.ended = said == Z_STREAM_END && stream.avail_in == 0;
  out.text.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

TEST(CodingsTest, ZstdBodiesAreUnpackedUpToALimit) {
  const std::string text = text_of_bytes(500'000);
  EXPECT_EQ(unpack_body("zstd", packed(text), 1'000'000).value(), text);
  EXPECT_EQ(unpack_body("zstd", packed(text), 1'000).error().code, Errc::too_large);
  EXPECT_EQ(unpack_body("", "as it is", 100).value(), "as it is");
  EXPECT_EQ(unpack_body("zstd", "not zstd", 100).error().code, Errc::invalid);
  const std::string whole = packed(text);
  EXPECT_EQ(unpack_body("zstd", whole.substr(0, whole.size() / 2), 1'000'000).error().code,
            Errc::invalid);
  EXPECT_EQ(unpack_body("snappy", "x", 100).error().code, Errc::invalid);
}

TEST(CodingsTest, GzipGivesTheReaderEachPieceAtOnce) {
  GzipWriter writer;
  std::string bytes = writer.write("first ");
  EXPECT_EQ(unzipped(bytes, 1'000).text, "first ");
  const std::string long_text = text_of_bytes(100'000);
  bytes += writer.write(long_text);
  const Unzipped so_far = unzipped(bytes, 200'000);
  EXPECT_EQ(so_far.text, "first " + long_text);
  EXPECT_FALSE(so_far.ended);
  bytes += writer.finish();
  const Unzipped whole = unzipped(bytes, 200'000);
  EXPECT_EQ(whole.text, "first " + long_text);
  EXPECT_TRUE(whole.ended);
  EXPECT_LT(bytes.size(), 10'000U);
}

TEST(CodingsTest, DatesAreThoseOfHttp) {
  EXPECT_EQ(http_date(WallTime{std::chrono::seconds(1'796'058'815)}),
            "Mon, 30 Nov 2026 17:13:35 GMT");
  EXPECT_EQ(http_date(WallTime{std::chrono::seconds(0)}), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_TRUE(accepts_gzip("br, GZIP;q=0.5"));
  EXPECT_FALSE(accepts_gzip("identity"));
}

}  // namespace
}  // namespace hg::lab
