#include "lab/codings.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <boost/beast/zlib/inflate_stream.hpp>

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
std::string unzipped(std::string_view bytes, std::size_t bytes_max) {
  namespace zlib = boost::beast::zlib;
  std::string out(bytes_max, '\0');
  zlib::inflate_stream inflate;
  zlib::z_params params;
  params.next_in = bytes.data() + 10;  // Behind the head.
  params.avail_in = bytes.size() - 10;
  params.next_out = out.data();
  params.avail_out = out.size();
  boost::system::error_code inflate_ec;
  inflate.write(params, zlib::Flush::sync, inflate_ec);
  out.resize(out.size() - params.avail_out);
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
  EXPECT_EQ(unzipped(bytes, 1'000), "first ");
  const std::string long_text = text_of_bytes(100'000);
  bytes += writer.write(long_text);
  EXPECT_EQ(unzipped(bytes, 200'000), "first " + long_text);
  const std::string end = writer.finish();
  ASSERT_GE(end.size(), 8U);
  bytes += end;
  EXPECT_EQ(unzipped(bytes, 200'000), "first " + long_text);
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
