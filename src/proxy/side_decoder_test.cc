#include "proxy/side_decoder.h"

#include <brotli/encode.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "proxy/test_codings.h"

namespace hg::proxy {
namespace {

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

std::string brotli(const std::string& text) {
  std::size_t size = BrotliEncoderMaxCompressedSize(text.size());
  std::string out(size, ' ');
  EXPECT_EQ(BROTLI_TRUE,
            BrotliEncoderCompress(4, BROTLI_DEFAULT_WINDOW, BROTLI_MODE_TEXT, text.size(),
                                  reinterpret_cast<const std::uint8_t*>(text.data()), &size,
                                  reinterpret_cast<std::uint8_t*>(out.data())));
  out.resize(size);
  return out;
}

std::string zstd(const std::string& text, int level = 3) {
  std::string out(ZSTD_compressBound(text.size()), ' ');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), level));
  return out;
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
      {"br", brotli(kText)},
      {"BR", brotli(kText)},
      {"zstd", zstd(kText)},
      {"gzip, br", brotli(text_of(kGzip))},
      {"zstd ,identity,,gzip", gzip(zstd(kText))},
  };
  for (const Row& row : rows) {
    for (std::size_t step = 1; step <= row.coded.size(); ++step) {
      SideDecoder decoder(row.coding);
      EXPECT_EQ(decode(decoder, row.coded, step), kText) << row.coding << " by " << step;
      EXPECT_TRUE(decoder.readable()) << row.coding << " by " << step;
    }
  }
}

TEST(SideDecoderTest, ReadsSeveralMembersAndFramesAsOneBody) {
  const std::string gzip = text_of(kGzip);
  const std::string frame = zstd(kText);
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
    SideDecoder members("gzip");
    EXPECT_EQ(decode(members, gzip + gzip, step), kText + kText) << step;
    SideDecoder frames("zstd");
    EXPECT_EQ(decode(frames, frame + frame, step), kText + kText) << step;
    SideDecoder padded("gzip");
    EXPECT_EQ(decode(padded, gzip + std::string(100, '\0'), step), kText) << step;
    EXPECT_TRUE(padded.readable());
  }
}

TEST(SideDecoderTest, PiecesOfAnySizeReadAsTheWhole) {
  // Members that end at every bit of a byte, with nothing, another or padding behind them.
  std::string members;
  std::string text;
  for (std::size_t length = 0; length < 40; ++length) {
    const std::string part = kText.substr(length, length) + std::to_string(length * 7919);
    members += gzip(part);
    text += part;
  }
  // Found by fuzzing: a member whose checksum is wrong, and another behind it.
  const unsigned char odd[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x01, 0x00, 0x02, 0x03, 0x8b,
                               0x21, 0x08, 0x00, 0x00, 0x00, 0x00, 0x49, 0xb4, 0x52, 0xa8, 0x56,
                               0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4a, 0xa1, 0x9a,
                               0x22, 0x00, 0x75, 0xac, 0xda, 0x5c, 0x6f, 0x00, 0x00, 0x00};
  struct Row {
    std::string coded;
    std::string text;
    bool readable = true;
  };
  const Row rows[] = {{members, text},
                      {members + std::string(20, '\0'), text},
                      {members + "garbage", text},
                      {members + "\x1fgarbage", text, false},
                      {members + "\x1f\x8b\x08", text},  // Cut amid a head.
                      {text_of(odd), std::string(34, '\\'), false}};
  for (const Row& row : rows) {
    for (std::size_t step = 1; step <= 40; ++step) {
      SideDecoder decoder("gzip");
      EXPECT_EQ(decode(decoder, row.coded, step), row.text) << step;
      EXPECT_EQ(decoder.readable(), row.readable) << step;
    }
    SideDecoder whole("gzip");
    EXPECT_EQ(decode(whole, row.coded, row.coded.size()), row.text);
    EXPECT_EQ(whole.readable(), row.readable);
  }
}

TEST(SideDecoderTest, GivesWhatWasFlushedBeforeTheStreamEnds) {
  // An event stream is flushed after each event; the reader must see it then, not at the end.
  for (const int format : {15, -15}) {
    const std::string raw = deflated(kText, format, Z_SYNC_FLUSH);
    for (const std::size_t step : {std::size_t{1}, raw.size()}) {
      SideDecoder decoder("deflate");
      EXPECT_EQ(decode(decoder, raw, step), kText) << format << " by " << step;
    }
  }
  SideDecoder of_gzip("gzip");
  EXPECT_EQ(decode(of_gzip, deflated(kText, 15 + 16, Z_SYNC_FLUSH), 4), kText);

  ZSTD_CCtx* context = ZSTD_createCCtx();
  std::string flushed(1024, ' ');
  ZSTD_inBuffer in = {kText.data(), kText.size(), 0};
  ZSTD_outBuffer out = {flushed.data(), flushed.size(), 0};
  EXPECT_EQ(ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush), 0U);
  ZSTD_freeCCtx(context);
  flushed.resize(out.pos);
  SideDecoder of_zstd("zstd");
  EXPECT_EQ(decode(of_zstd, flushed, 3), kText);

  BrotliEncoderState* encoder = BrotliEncoderCreateInstance(nullptr, nullptr, nullptr);
  std::string part(1024, ' ');
  std::size_t in_left = kText.size();
  const auto* next_in = reinterpret_cast<const std::uint8_t*>(kText.data());
  std::size_t out_left = part.size();
  auto* next_out = reinterpret_cast<std::uint8_t*>(part.data());
  BrotliEncoderCompressStream(encoder, BROTLI_OPERATION_FLUSH, &in_left, &next_in, &out_left,
                              &next_out, nullptr);
  BrotliEncoderDestroyInstance(encoder);
  part.resize(part.size() - out_left);
  SideDecoder of_brotli("br");
  EXPECT_EQ(decode(of_brotli, part, 5), kText);
}

TEST(SideDecoderTest, SaysWhenItCannotRead) {
  SideDecoder unknown("compress");
  EXPECT_EQ(decode(unknown, "anything", 3), "");
  EXPECT_FALSE(unknown.readable());
  for (const char* stack : {"gzip, aes128gcm", "gzip, gzip, gzip", "br,zstd,gzip", "dcb"}) {
    EXPECT_FALSE(SideDecoder(stack).readable()) << stack;
  }
  for (const char* coding : {"gzip", "br", "zstd"}) {
    SideDecoder wrong(coding);
    EXPECT_EQ(decode(wrong, kText, 5), "") << coding;
    EXPECT_FALSE(wrong.readable()) << coding;
    decode(wrong, kText, 5);  // And stays so.
  }
  std::string broken = text_of(kGzip);
  for (std::size_t at = 20; at < broken.size(); ++at) broken[at] = static_cast<char>(~broken[at]);
  SideDecoder damaged("gzip");
  decode(damaged, broken, 7);
  EXPECT_FALSE(damaged.readable());
}

TEST(SideDecoderTest, KnowsWhetherWhatAnAgentAcceptsCanBeUndone) {
  struct Row {
    std::vector<const char*> fields;
    bool known;
  };
  const Row rows[] = {
      {{}, true},
      {{""}, true},
      {{"gzip, deflate, br, zstd"}, true},
      {{"GZIP;q=0.5", "identity;q=0.1"}, true},
      {{"gzip", "compress"}, false},
      {{"gzip;q=1.0, *;q=0.5"}, false},
      {{"gzip, identity;q=0"}, false},
      {{"gzip, identity; q=0.000"}, false},
      {{"dcb"}, false},
  };
  for (const Row& row : rows) {
    Headers headers;
    for (const char* field : row.fields) headers.add("Accept-Encoding", field);
    EXPECT_EQ(accepts_only_known(headers), row.known)
        << (row.fields.empty() ? "none" : row.fields.back());
  }
}

TEST(SideDecoderTest, StopsAtItsLimit) {
  SideDecoder decoder("gzip", 50);
  EXPECT_EQ(decode(decoder, text_of(kGzip), 1000), kText.substr(0, 50));
  EXPECT_FALSE(decoder.readable());
}

TEST(SideDecoderTest, ABombGoesNoFurtherThanTheLimit) {
  const std::string zeros(std::size_t{20} << 20U, '\0');
  const std::string once = zstd(zeros, 19);
  ASSERT_LT(once.size(), 4096U);
  struct Row {
    const char* coding;
    std::string coded;
  };
  const Row rows[] = {{"zstd", once}, {"br", brotli(zeros)}, {"zstd, br", brotli(once)}};
  for (const Row& row : rows) {
    constexpr std::size_t kLimit = std::size_t{1} << 20U;
    SideDecoder decoder(row.coding, kLimit);
    std::size_t out = 0;
    decoder.feed(row.coded, [&](std::string_view piece) { out += piece.size(); });
    EXPECT_EQ(out, kLimit) << row.coding;
    EXPECT_FALSE(decoder.readable()) << row.coding;
  }
  // The outer layer alone is too much, whatever the inner one makes of it.
  SideDecoder stacked("gzip, zstd", std::size_t{1} << 20U);
  std::size_t out = 0;
  stacked.feed(once, [&](std::string_view piece) { out += piece.size(); });
  EXPECT_EQ(out, 0U);
  EXPECT_FALSE(stacked.readable());
}

TEST(SideDecoderTest, RefusesWindowsBeyondWhatHttpAllows) {
  // A frame that says it needs a window of 16 MiB.
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 24);
  std::string coded(1 << 16, ' ');
  const std::string text(1 << 16, 'a');
  ZSTD_inBuffer in = {text.data(), text.size(), 0};
  ZSTD_outBuffer out = {coded.data(), coded.size(), 0};
  EXPECT_EQ(ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush), 0U);
  ZSTD_freeCCtx(context);
  coded.resize(out.pos);
  SideDecoder decoder("zstd");
  EXPECT_EQ(decode(decoder, coded, 4096), "");
  EXPECT_FALSE(decoder.readable());
}

}  // namespace
}  // namespace hg::proxy
