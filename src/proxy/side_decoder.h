// side_decoder.h: reads the content codings of a body in its side copy, piece by piece: identity,
// gzip, deflate, br and zstd, one or two of them. The bytes that are forwarded are never touched.
//
// A coding that it does not know, a third layer, broken data, or more than the limit once unpacked
// (of either layer) make it unreadable: the caller then knows that it has not seen everything, and
// settles by estimate. Pure; one owner; holds the windows of its codings and no body; nothing for
// identity.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/headers.h"
#include "proxy/content_coding.h"

namespace hg::proxy {

// The values of all Content-Encoding fields, in order, joined by commas.
[[nodiscard]] std::string codings_of(const Headers& headers);

// Whether an answer to this request can be given in plain text whatever coding it comes in: all
// that its Accept-Encoding fields name are known here, and the agent does not refuse identity.
[[nodiscard]] bool accepts_only_known(const Headers& request);

class SideDecoder {
 public:
  // `content_encoding` is the field's value, as of codings_of; "" for none. At most `limit` bytes
  // come out.
  explicit SideDecoder(std::string_view content_encoding,
                       std::size_t limit = std::size_t{64} * 1024 * 1024);
  ~SideDecoder();
  SideDecoder(SideDecoder&&) noexcept;
  SideDecoder& operator=(SideDecoder&&) noexcept;

  // Gives `sink` what these bytes unpack to, in pieces that live until it returns.
  void feed(std::string_view bytes, const std::function<void(std::string_view)>& sink);

  // Whether everything fed so far could be read.
  [[nodiscard]] bool readable() const { return readable_; }

 private:
  struct Layer {
    std::unique_ptr<ContentCoding> coding;
    std::size_t left = 0;  // Bytes that may still come out of it.
  };

  using Sink = std::function<void(std::string_view)>;
  bool give(std::string_view bytes, std::size_t& left, const Sink& sink);
  void feed_layer(std::size_t index, std::string_view bytes, const Sink& sink);

  std::vector<Layer> layers_;  // The outermost first: the one that was applied last.
  std::size_t left_;           // identity: bytes that may still come out.
  bool readable_ = true;
};

}  // namespace hg::proxy
