#include "lab/codings.h"

#include <fmt/core.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <chrono>

#include "base/assert.h"
#include "base/text.h"

namespace hg::lab {
namespace {

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

}  // namespace

Result<std::string> unpack_body(std::string_view coding, std::string body, std::size_t bytes_max) {
  const std::string word = to_lower(trim(coding));
  if (word.empty() || word == "identity") return body;
  if (word == "zstd") return unpack_zstd(body, bytes_max);
  return fail(Errc::invalid, fmt::format("Unsupported content-encoding: {}", word));
}

struct GzipWriter::State {
  z_stream stream{};

  State() {
    // 16 more than the window: with gzip's head and checksum.
    constexpr int kGzipFormat = 15 + 16;
    constexpr int kMemory = 8;  // zlib's own default.
    const int made = deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipFormat, kMemory,
                                  Z_DEFAULT_STRATEGY);
    HG_ASSERT(made == Z_OK);  // Anything but that is no memory.
  }
  ~State() { deflateEnd(&stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::string run(std::string_view in, int flush) {
    std::string out;
    std::array<Bytef, 4096> chunk;
    // zlib reads only; its type lacks the const.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream.avail_in = static_cast<uInt>(in.size());
    do {
      stream.next_out = chunk.data();
      stream.avail_out = static_cast<uInt>(chunk.size());
      deflate(&stream, flush);
      const std::size_t made = chunk.size() - stream.avail_out;
      out.append(reinterpret_cast<const char*>(chunk.data()), made);
    } while (stream.avail_out == 0);
    return out;
  }
};

GzipWriter::GzipWriter() : state_(std::make_unique<State>()) {}
GzipWriter::~GzipWriter() = default;
GzipWriter::GzipWriter(GzipWriter&&) noexcept = default;
GzipWriter& GzipWriter::operator=(GzipWriter&&) noexcept = default;

std::string GzipWriter::write(std::string_view bytes) { return state_->run(bytes, Z_SYNC_FLUSH); }

std::string GzipWriter::finish() { return state_->run({}, Z_FINISH); }

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
