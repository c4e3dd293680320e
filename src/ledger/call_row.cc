#include "ledger/call_row.h"

#include <fmt/format.h>

#include <algorithm>

namespace hg::ledger {

namespace {

// A varint: seven bits a byte, the low ones first.
void put_varint(std::uint64_t value, std::string& bytes) {
  while (value >= 0x80) {
    bytes += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  bytes += static_cast<char>(value);
}

std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (bytes.empty()) return std::nullopt;
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// Small magnitudes become small numbers, whatever their sign.
std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

void put_text(std::string_view text, std::string& bytes) {
  text = text.substr(0, kMaxTextBytes);
  put_varint(text.size(), bytes);
  for (const char c : text) bytes += c >= 0x20 && c < 0x7f ? c : '?';
}

void put_json_text(std::string_view text, std::string& line) {
  line += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') line += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      line += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
  line += '"';
}

// A spreadsheet would run a text that begins like a formula.
std::string csv_text(std::string_view text) {
  const bool formula = !text.empty() && std::string_view("=+-@").contains(text.front());
  if (!formula && text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = formula ? "\"'" : "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

const std::array<CallColumn, kCallColumns>& call_columns() {
  static const std::array<CallColumn, kCallColumns> columns = {
      CallColumn{"id", &CallRow::id},
      CallColumn{"upstream", &CallRow::upstream},
      CallColumn{"provider", &CallRow::provider},
      CallColumn{"pool", &CallRow::pool},
      CallColumn{"harness", &CallRow::harness},
      CallColumn{"run", &CallRow::run},
      CallColumn{"task", &CallRow::task},
      CallColumn{"attempt", &CallRow::attempt},
      CallColumn{"conversation", &CallRow::conversation},
      CallColumn{"started_at_us", &CallRow::started_at_us},
      CallColumn{"model", &CallRow::model},
      CallColumn{"dialect", &CallRow::dialect},
      CallColumn{"stream", &CallRow::stream},
      CallColumn{"prompt_chars", &CallRow::prompt_chars},
      CallColumn{"estimate_tokens", &CallRow::estimate_tokens},
      CallColumn{"charge_tokens", &CallRow::charge_tokens},
      CallColumn{"cached_guess_tokens", &CallRow::cached_guess_tokens},
      CallColumn{"hold_axis", &CallRow::hold_axis},
      CallColumn{"hold_place", &CallRow::hold_place},
      CallColumn{"asks", &CallRow::asks},
      CallColumn{"sends", &CallRow::sends},
      CallColumn{"overloads", &CallRow::overloads},
      CallColumn{"outcome", &CallRow::outcome},
      CallColumn{"settled_by", &CallRow::settled_by},
      CallColumn{"status", &CallRow::status},
      CallColumn{"own_answer", &CallRow::own_answer},
      CallColumn{"degraded", &CallRow::degraded},
      CallColumn{"provider_request_id", &CallRow::provider_request_id},
      CallColumn{"uncached_tokens", &CallRow::uncached_tokens},
      CallColumn{"cached_tokens", &CallRow::cached_tokens},
      CallColumn{"cache_write_tokens", &CallRow::cache_write_tokens},
      CallColumn{"output_tokens", &CallRow::output_tokens},
      CallColumn{"reasoning_tokens", &CallRow::reasoning_tokens},
      CallColumn{"unread_encoding", &CallRow::unread_encoding},
      CallColumn{"cost_micro_usd", &CallRow::cost_micro_usd},
      CallColumn{"cost_source", &CallRow::cost_source},
      CallColumn{"reading_us", &CallRow::reading_us},
      CallColumn{"held_us", &CallRow::held_us},
      CallColumn{"backed_off_us", &CallRow::backed_off_us},
      CallColumn{"provider_us", &CallRow::provider_us},
      CallColumn{"own_us", &CallRow::own_us},
      CallColumn{"total_us", &CallRow::total_us},
      CallColumn{"first_byte_us", &CallRow::first_byte_us},
      CallColumn{"bytes_in", &CallRow::bytes_in},
      CallColumn{"bytes_out", &CallRow::bytes_out},
  };
  return columns;
}

// A field: its tag times two, plus one for a text; then the number, or the text's length and bytes.
void append_payload(const CallRow& row, std::string& bytes) {
  std::uint64_t tag = 0;
  for (const CallColumn& column : call_columns()) {
    if (const auto* text = std::get_if<std::string CallRow::*>(&column.field)) {
      const std::string& value = row.*(*text);
      if (!value.empty()) {
        put_varint(tag * 2 + 1, bytes);
        put_text(value, bytes);
      }
    } else {
      const Number& value = row.*std::get<Number CallRow::*>(column.field);
      if (value) {
        put_varint(tag * 2, bytes);
        put_varint(zigzag(*value), bytes);
      }
    }
    ++tag;
  }
}

Result<CallRow> parse_payload(std::string_view bytes) {
  const auto& columns = call_columns();
  CallRow row;
  while (!bytes.empty()) {
    const auto key = take_varint(bytes);
    const auto value = take_varint(bytes);
    if (!key || !value) return fail(Errc::protocol, "a spooled call breaks off");
    const std::uint64_t tag = *key / 2;
    const bool is_text = *key % 2 == 1;
    if (is_text && *value > bytes.size()) {
      return fail(Errc::protocol, "a spooled call breaks off amid a text");
    }
    const std::string_view text = is_text ? bytes.substr(0, *value) : std::string_view();
    bytes.remove_prefix(text.size());
    if (tag >= columns.size()) continue;  // Of a later release.
    const CallColumn& column = columns[tag];
    if (column.is_text() != is_text) {
      return fail(Errc::protocol,
                  fmt::format("a spooled call has no {} of this kind", column.name));
    }
    if (is_text) {
      row.*std::get<std::string CallRow::*>(column.field) = text;
    } else {
      row.*std::get<Number CallRow::*>(column.field) = unzigzag(*value);
    }
  }
  if (row.id.empty()) return fail(Errc::protocol, "a spooled call has no id");
  return row;
}

std::string to_json(const CallRow& row) {
  std::string line = "{";
  for (const CallColumn& column : call_columns()) {
    const auto* text = std::get_if<std::string CallRow::*>(&column.field);
    const Number number = text ? Number() : row.*std::get<Number CallRow::*>(column.field);
    const bool there = text ? !(row.*(*text)).empty() : number.has_value();
    if (!there) continue;
    if (line.size() > 1) line += ',';
    put_json_text(column.name, line);
    line += ':';
    if (text) {
      put_json_text(row.*(*text), line);
    } else {
      line += fmt::format_int(*number).c_str();
    }
  }
  return line + "}";
}

std::string csv_head() {
  std::string line;
  for (const CallColumn& column : call_columns()) {
    if (!line.empty()) line += ',';
    line += column.name;
  }
  return line;
}

std::string to_csv(const CallRow& row) {
  std::string line;
  bool first = true;
  for (const CallColumn& column : call_columns()) {
    if (!first) line += ',';
    first = false;
    if (const auto* text = std::get_if<std::string CallRow::*>(&column.field)) {
      line += csv_text(row.*(*text));
    } else if (const Number& number = row.*std::get<Number CallRow::*>(column.field)) {
      line += fmt::format_int(*number).c_str();
    }
  }
  return line;
}

}  // namespace hg::ledger
