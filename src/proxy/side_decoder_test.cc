#include "proxy/side_decoder.h"

#include <gtest/gtest.h>

#include <boost/beast/zlib/deflate_stream.hpp>
#include <string>

namespace hg::proxy {
namespace {

namespace zlib = boost::beast::zlib;

const std::string kText =
    "data: {\"usage\":{\"input_tokens\":12}}\n\n"
    "data: {\"usage\":{\"input_tokens\":12}}\n\n"
    "data: {\"usage\":{\"input_tokens\":12}}\n\n";

// kText as gzip(1) writes it, with a file name in the header.
const unsigned char kGzip[] = {
    0x1f, 0x8b, 0x08, 0x08, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff, 0x6e, 0x61, 0x6d, 0x65,
    0x2e, 0x74, 0x78, 0x74, 0x00, 0x4b, 0x49, 0x2c, 0x49, 0xb4, 0x52, 0xa8, 0x56, 0x2a,
    0x2d, 0x4e, 0x4c, 0x4f, 0x55, 0xb2, 0xaa, 0x56, 0xca, 0xcc, 0x2b, 0x28, 0x2d, 0x89,
    0x2f, 0xc9, 0xcf, 0x4e, 0xcd, 0x2b, 0x56, 0xb2, 0x32, 0x34, 0xaa, 0xad, 0xe5, 0xe2,
    0x4a, 0xa1, 0x9a, 0x22, 0x00, 0x75, 0xac, 0xda, 0x5c, 0x6f, 0x00, 0x00, 0x00};
// kText in the zlib format, and as a raw deflate stream.
const unsigned char kZlib[] = {
    0x78, 0x9c, 0x4b, 0x49, 0x2c, 0x49, 0xb4, 0x52, 0xa8, 0x56, 0x2a, 0x2d, 0x4e, 0x4c, 0x4f, 0x55,
    0xb2, 0xaa, 0x56, 0xca, 0xcc, 0x2b, 0x28, 0x2d, 0x89, 0x2f, 0xc9, 0xcf, 0x4e, 0xcd, 0x2b, 0x56,
    0xb2, 0x32, 0x34, 0xaa, 0xad, 0xe5, 0xe2, 0x4a, 0xa1, 0x9a, 0x22, 0x00, 0x5b, 0x5a, 0x25, 0xae};
const unsigned char kRaw[] = {0x4b, 0x49, 0x2c, 0x49, 0xb4, 0x52, 0xa8, 0x56, 0x2a, 0x2d, 0x4e,
                              0x4c, 0x4f, 0x55, 0xb2, 0xaa, 0x56, 0xca, 0xcc, 0x2b, 0x28, 0x2d,
                              0x89, 0x2f, 0xc9, 0xcf, 0x4e, 0xcd, 0x2b, 0x56, 0xb2, 0x32, 0x34,
                              0xaa, 0xad, 0xe5, 0xe2, 0x4a, 0xa1, 0x9a, 0x22, 0x00};

template <std::size_t N>
std::string text_of(const unsigned char (&bytes)[N]) {
  return std::string(reinterpret_cast<const char*>(bytes), N);
}

// Decodes `coded`, fed in pieces of `step` bytes.
std::string decode(SideDecoder& decoder, const std::string& coded, std::size_t step) {
  std::string out;
  const auto sink = [&](std::string_view piece) { out.append(piece); };
  for (std::size_t at = 0; at < coded.size(); at += step) {
    decoder.feed(std::string_view(coded).substr(at, step), sink);
  }
  return out;
}

TEST(SideDecoderTest, ReadsEveryCodingAtEveryCutPoint) {
  struct Row {
    const char* coding;
    std::string coded;
  };
  const Row rows[] = {
      {"", kText},
      {"identity", kText},
      {"gzip", text_of(kGzip)},
      {"X-Gzip", text_of(kGzip)},
      {"deflate", text_of(kZlib)},
      {"deflate", text_of(kRaw)},
  };
  for (const Row& row : rows) {
    for (std::size_t step = 1; step <= row.coded.size(); ++step) {
      SideDecoder decoder(row.coding);
      EXPECT_EQ(decode(decoder, row.coded, step), kText) << row.coding << " by " << step;
      EXPECT_TRUE(decoder.readable()) << row.coding << " by " << step;
    }
  }
}

TEST(SideDecoderTest, GivesWhatWasFlushedBeforeTheStreamEnds) {
  // An event stream is flushed after each event; the reader must see it then, not at the end.
  zlib::deflate_stream deflater;
  std::string raw(1024, ' ');
  zlib::z_params params;
  params.next_in = kText.data();
  params.avail_in = kText.size();
  params.next_out = raw.data();
  params.avail_out = raw.size();
  boost::system::error_code ec;
  deflater.write(params, zlib::Flush::sync, ec);
  raw.resize(raw.size() - params.avail_out);
  SideDecoder decoder("deflate");
  EXPECT_EQ(decode(decoder, raw, raw.size()), kText);
}

TEST(SideDecoderTest, SaysWhenItCannotRead) {
  SideDecoder unknown("br");
  EXPECT_EQ(decode(unknown, "anything", 3), "");
  EXPECT_FALSE(unknown.readable());
  SideDecoder stacked("gzip, br");
  EXPECT_FALSE(stacked.readable());
  SideDecoder not_gzip("gzip");
  EXPECT_EQ(decode(not_gzip, kText, 5), "");
  EXPECT_FALSE(not_gzip.readable());
  std::string broken = text_of(kGzip);
  for (std::size_t at = 20; at < broken.size(); ++at) broken[at] = static_cast<char>(~broken[at]);
  SideDecoder damaged("gzip");
  decode(damaged, broken, 7);
  EXPECT_FALSE(damaged.readable());
}

TEST(SideDecoderTest, StopsAtItsLimit) {
  SideDecoder decoder("gzip", 50);
  EXPECT_EQ(decode(decoder, text_of(kGzip), 1000), kText.substr(0, 50));
  EXPECT_FALSE(decoder.readable());
}

}  // namespace
}  // namespace hg::proxy
