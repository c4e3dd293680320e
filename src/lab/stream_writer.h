// stream_writer.h: what the shapes of the four APIs share: pieces of a stream, quoted JSON, ids.
//
// For wire_shapes*.cc only. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "lab/wire_shapes.h"

namespace hg::lab {

// As a JSON string, with its quotes.
[[nodiscard]] std::string quoted_json(std::string_view text);

// Cut where a UTF-8 sequence begins, as a tokenizer's pieces mostly are. Views into `text`.
[[nodiscard]] std::vector<std::string_view> pieces_of(std::string_view text, std::size_t bytes);

// What a call carries as its input: JSON, or the text of a freeform one.
[[nodiscard]] const std::string& input_of(const ToolCall& call);

// Collects the pieces of a stream; output counts rise with the bytes of text sent.
class StreamWriter {
 public:
  // `reply` outlives the writer.
  StreamWriter(const Reply& reply, std::size_t delta_bytes);

  // `generated`: bytes of model output that this piece carries.
  void add(std::string bytes, std::size_t generated = 0);

  // Joins to the piece before: sent in the same write.
  void append(std::string_view bytes) { pieces_.back().bytes += bytes; }

  // Output tokens once `generated` more bytes are sent.
  [[nodiscard]] Tokens output_after(std::size_t generated) const;

  // The last piece completes the output. The writer is empty after this.
  [[nodiscard]] std::vector<StreamPiece> take();

  [[nodiscard]] std::size_t delta_bytes() const { return delta_bytes_; }

 private:
  std::vector<StreamPiece> pieces_;
  Tokens output_;
  std::size_t delta_bytes_;
  std::size_t total_bytes_;
  std::size_t sent_bytes_ = 0;
};

}  // namespace hg::lab
