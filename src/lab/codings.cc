#include "lab/codings.h"

#include <fmt/core.h>
#include <zstd.h>

#include <array>
#include <boost/beast/zlib/deflate_stream.hpp>
#include <boost/crc.hpp>
#include <chrono>
#include <cstdint>

#include "base/text.h"

namespace hg::lab {
namespace {

namespace zlib = boost::beast::zlib;

struct ZstdFree {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

Result<std::string> unpack_zstd(std::string_view packed, std::size_t bytes_max) {
  const std::unique_ptr<ZSTD_DCtx, ZstdFree> context(ZSTD_createDCtx());
  if (!context) return fail(Errc::internal, "no memory for zstd");
  std::string body;
  std::string chunk(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer in = {packed.data(), packed.size(), 0};
  std::size_t left = 1;  // 0: a frame has ended.
  bool full = false;     // The last chunk was full: there may be more inside.
  while (in.pos < in.size || full) {
    ZSTD_outBuffer out = {chunk.data(), chunk.size(), 0};
    left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left) != 0) return fail(Errc::invalid, "The body is not valid zstd.");
    if (out.pos > bytes_max - body.size()) return fail(Errc::too_large, "The body is too large.");
    body.append(chunk.data(), out.pos);
    full = out.pos == out.size;
  }
  if (left != 0) return fail(Errc::invalid, "The zstd body is cut short.");
  return body;
}

void put_little_endian(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    out += static_cast<char>(static_cast<unsigned char>(value >> shift));
  }
}

}  // namespace

Result<std::string> unpack_body(std::string_view coding, std::string body, std::size_t bytes_max) {
  const std::string word = to_lower(trim(coding));
  if (word.empty() || word == "identity") return body;
  if (word == "zstd") return unpack_zstd(body, bytes_max);
  return fail(Errc::invalid, fmt::format("Unsupported content-encoding: {}", word));
}

struct GzipWriter::State {
  zlib::deflate_stream deflate;
  boost::crc_32_type crc;
  std::uint32_t bytes = 0;  // Modulo 2^32, as the format has it.
  bool begun = false;

  std::string run(std::string_view in, zlib::Flush flush) {
    std::string out;
    if (!begun) out.append("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", 10);
    begun = true;
    crc.process_bytes(in.data(), in.size());
    bytes += static_cast<std::uint32_t>(in.size());
    std::array<char, 4096> chunk;
    zlib::z_params params;
    params.next_in = in.data();
    params.avail_in = in.size();
    for (;;) {
      params.next_out = chunk.data();
      params.avail_out = chunk.size();
      boost::system::error_code deflate_ec;
      deflate.write(params, flush, deflate_ec);
      const std::size_t made = chunk.size() - params.avail_out;
      out.append(chunk.data(), made);
      if (deflate_ec || params.avail_out > 0) break;
    }
    return out;
  }
};

GzipWriter::GzipWriter() : state_(std::make_unique<State>()) {}
GzipWriter::~GzipWriter() = default;
GzipWriter::GzipWriter(GzipWriter&&) noexcept = default;
GzipWriter& GzipWriter::operator=(GzipWriter&&) noexcept = default;

std::string GzipWriter::write(std::string_view bytes) {
  return state_->run(bytes, zlib::Flush::sync);
}

std::string GzipWriter::finish() {
  std::string out = state_->run({}, zlib::Flush::finish);
  put_little_endian(out, state_->crc.checksum());
  put_little_endian(out, state_->bytes);
  return out;
}

bool accepts_gzip(std::string_view accept_encoding) {
  return to_lower(accept_encoding).contains("gzip");
}

std::string http_date(WallTime wall) {
  static constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed",
                                                       "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto whole = std::chrono::floor<std::chrono::days>(wall.since_epoch);
  const std::chrono::sys_days day{whole};
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{
      std::chrono::floor<std::chrono::seconds>(wall.since_epoch - whole)};
  return fmt::format(
      "{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[std::chrono::weekday{day}.c_encoding()],
      static_cast<unsigned>(date.day()), kMonths[static_cast<unsigned>(date.month()) - 1],
      static_cast<int>(date.year()), time.hours().count(), time.minutes().count(),
      time.seconds().count());
}

}  // namespace hg::lab
