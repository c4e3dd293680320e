#include "proxy/side_decoder.h"

#include <utility>

#include "base/text.h"

namespace hg::proxy {
namespace {

// More are a bomb, or a mistake.
constexpr std::size_t kLayersMax = 2;

// "identity;q=0": not to be sent (RFC 9110, 12.4.2).
bool weighs_nothing(std::string_view item) {
  const std::size_t at = item.find("q=");
  if (at == std::string_view::npos) return false;
  const std::string_view weight = trim(item.substr(at + 2));
  return !weight.empty() && weight.find_first_not_of("0.") == std::string_view::npos;
}

}  // namespace

std::string codings_of(const Headers& headers) {
  std::string joined;
  for (const std::string_view coding : headers.list("content-encoding")) {
    if (!joined.empty()) joined += ", ";
    joined += coding;
  }
  return joined;
}

bool accepts_only_known(const Headers& request) {
  for (const std::string_view item : request.list("accept-encoding")) {
    const std::string_view name = trim(item.substr(0, item.find(';')));
    const bool plain = name.empty() || iequals(name, "identity");
    if (!plain && !ContentCoding::known(name)) return false;
    if (plain && weighs_nothing(item)) return false;
  }
  return true;
}

SideDecoder::SideDecoder(std::string_view content_encoding, std::size_t limit) : left_(limit) {
  // Codings are listed in the order in which they were applied (RFC 9110, 8.4).
  while (readable_ && !content_encoding.empty()) {
    const std::size_t comma = content_encoding.rfind(',');
    const bool last = comma == std::string_view::npos;
    const std::string_view name = trim(last ? content_encoding
                                            : content_encoding.substr(comma + 1));
    content_encoding = last ? std::string_view() : content_encoding.substr(0, comma);
    if (name.empty() || iequals(name, "identity")) continue;
    Layer layer;
    layer.coding = ContentCoding::by_name(name);
    layer.left = limit;
    readable_ = layer.coding != nullptr && layers_.size() < kLayersMax;
    layers_.push_back(std::move(layer));
  }
  if (!readable_) layers_.clear();
}

SideDecoder::~SideDecoder() = default;
SideDecoder::SideDecoder(SideDecoder&&) noexcept = default;
SideDecoder& SideDecoder::operator=(SideDecoder&&) noexcept = default;

bool SideDecoder::give(std::string_view bytes, std::size_t& left, const Sink& sink) {
  if (bytes.size() > left) readable_ = false;
  const std::string_view fits = bytes.substr(0, left);
  left -= fits.size();
  if (!fits.empty()) sink(fits);
  return readable_;
}

void SideDecoder::feed_layer(std::size_t index, std::string_view bytes, const Sink& sink) {
  Layer& layer = layers_[index];
  const bool innermost = index + 1 == layers_.size();
  const Sink next = innermost ? sink
                              : [&](std::string_view piece) { feed_layer(index + 1, piece, sink); };
  const ContentCoding::Fed fed = layer.coding->feed(
      bytes, [&](std::string_view piece) { return give(piece, layer.left, next); });
  if (fed != ContentCoding::Fed::all) readable_ = false;
}

void SideDecoder::feed(std::string_view bytes, const Sink& sink) {
  if (!readable_ || bytes.empty()) return;
  if (layers_.empty()) {
    give(bytes, left_, sink);
  } else {
    feed_layer(0, bytes, sink);
  }
  // Windows of megabytes are not kept for bytes that nobody reads.
  if (!readable_) layers_.clear();
}

}  // namespace hg::proxy
