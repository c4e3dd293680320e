#include "lab/stream_writer.h"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

namespace hg::lab {

std::string quoted_json(std::string_view text) {
  return boost::json::serialize(boost::json::string(text));
}

std::vector<std::string_view> pieces_of(std::string_view text, std::size_t bytes) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    std::size_t end = std::min(std::max<std::size_t>(bytes, 1), text.size());
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return pieces;
}

const std::string& input_of(const ToolCall& call) {
  return call.freeform ? call.text : call.input_json;
}

StreamWriter::StreamWriter(const Reply& reply, std::size_t delta_bytes)
    : output_(reply.usage.output),
      delta_bytes_(delta_bytes),
      total_bytes_(reply.answer.text.size()) {
  for (const ToolCall& call : reply.answer.calls) total_bytes_ += input_of(call).size();
}

void StreamWriter::add(std::string bytes, std::size_t generated) {
  StreamPiece piece;
  piece.bytes = std::move(bytes);
  piece.output_done = output_after(generated);
  piece.carries_output = generated > 0;
  sent_bytes_ += generated;
  pieces_.push_back(std::move(piece));
}

Tokens StreamWriter::output_after(std::size_t generated) const {
  if (total_bytes_ == 0) return 0;
  return static_cast<Tokens>(static_cast<double>(output_) *
                             static_cast<double>(sent_bytes_ + generated) /
                             static_cast<double>(total_bytes_));
}

std::vector<StreamPiece> StreamWriter::take() {
  if (!pieces_.empty()) pieces_.back().output_done = output_;
  return std::move(pieces_);
}

}  // namespace hg::lab
