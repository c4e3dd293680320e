// prompt_walker.h: what the readers of the four APIs share: a walk over a prompt that counts its
// tokens and chains the hashes of its prefix, and small looks into JSON.
//
// For request_view.cc and its like only. Pure.
#pragma once
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "lab/request_view.h"

namespace hg::lab {

// The member's text; "" if it is absent or no text.
[[nodiscard]] std::string_view text_of(const boost::json::object& object, std::string_view key);

[[nodiscard]] std::optional<Tokens> whole_number(const boost::json::object& object,
                                                 std::string_view key);

// The member if it is an array or object, else nullptr.
[[nodiscard]] const boost::json::array* array_in(const boost::json::object& object,
                                                 std::string_view key);
[[nodiscard]] const boost::json::object* object_in(const boost::json::object& object,
                                                   std::string_view key);

// True only for a member that is true.
[[nodiscard]] bool is_true(const boost::json::object& object, std::string_view key);

// Text of a message's content, or of a tool result's: a text, or an array of parts.
[[nodiscard]] std::string content_text(const boost::json::value* content);

// A tool by its name and the schema of its input (nullptr: none known).
[[nodiscard]] OfferedTool tool_of(std::string_view name, const boost::json::object* schema);

// Walks the prompt in order, adding up tokens and chaining the hash of the prefix, into the view
// that it was given.
class PromptWalker {
 public:
  // Both outlive the walker.
  PromptWalker(const TokenRule& rule, RequestView& view) : rule_(rule), view_(view) {}

  void text(std::string_view text);

  // Every text below; pictures have their flat price, addresses and markings none.
  void value(const boost::json::value& value);

  // A message: its value, its framing, and the end of a block.
  void message(const boost::json::value& message);

  void end_block() { view_.prefix.push_back({hash_, view_.prompt_tokens}); }

  // Who speaks: turns of the model are counted, and what the user said before the first is kept.
  void by_model();
  void by_user(const std::string& text);
  void tool_result(std::string text);

 private:
  void object(const boost::json::object& object);
  void find_directory(std::string_view text);

  const TokenRule& rule_;
  RequestView& view_;
  std::uint64_t hash_ = 0;
  bool model_speaks_ = false;  // The last item was the model's: its items in a row are one turn.
};

}  // namespace hg::lab
