// side_decoder.h: reads a content coding in the side copy of a body, piece by piece: identity, gzip
// and deflate. The bytes that are forwarded are never touched.
//
// A coding that it does not know, broken data, or more than the limit once unpacked make it
// unreadable: the caller then knows that it has not seen everything, and settles by estimate.
// Pure; one owner; holds a 32 KiB window and no body.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

namespace hg::proxy {

class SideDecoder {
 public:
  // `content_encoding` is the field's value; "" for none. At most `limit` bytes come out.
  explicit SideDecoder(std::string_view content_encoding,
                       std::size_t limit = std::size_t{64} * 1024 * 1024);
  ~SideDecoder();
  SideDecoder(SideDecoder&&) noexcept;
  SideDecoder& operator=(SideDecoder&&) noexcept;

  // Gives `sink` what these bytes unpack to, in pieces that live until it returns.
  void feed(std::string_view bytes, const std::function<void(std::string_view)>& sink);

  // Whether everything fed so far could be read.
  [[nodiscard]] bool readable() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hg::proxy
