#include "ledger/sql.h"

#include <fmt/format.h>

namespace hg::ledger {

std::string one_line(std::string_view message) {
  constexpr std::size_t kEnough = 300;
  // SOCI repeats the statement, which says nothing to the reader of a log.
  for (const std::string_view tail : {" while preparing \"", " while executing \""}) {
    message = message.substr(0, message.find(tail));
  }
  std::string line;
  for (const char c : message.substr(0, kEnough)) {
    const bool blank = static_cast<unsigned char>(c) <= ' ';
    if (!blank) line += c;
    if (blank && !line.empty() && line.back() != ' ') line += ' ';
  }
  if (line.ends_with(' ')) line.pop_back();
  return line;
}

// ---- Transaction ------------------------------------------------------------------------------

Transaction::Transaction(soci::session& session, Place::Kind kind) : session_(session) {
  // At once, so that two writers wait for each other here and not amid their work.
  session_ << (kind == Place::Kind::sqlite ? "BEGIN IMMEDIATE" : "BEGIN");
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    session_ << "ROLLBACK";
  } catch (const std::exception&) {
    return;  // It is rolled back already, or the connection is gone, and with it the transaction.
  }
}

void Transaction::commit() {
  session_ << "COMMIT";
  open_ = false;
}

namespace {

// As an element of an array.
void quote(std::string_view value, std::string& array) {
  array += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') array += '\\';
    array += c;
  }
  array += '"';
}

}  // namespace

// ---- ManyRows ---------------------------------------------------------------------------------

ManyRows::ManyRows(soci::session& session, Place::Kind kind, const std::string& table,
                   std::vector<Column> columns, const std::string& conflict, const std::string& id)
    : kind_(kind), columns_(std::move(columns)), tells_new_(!id.empty()), slots_(columns_.size()) {
  std::string names;
  std::string values;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    if (i > 0) names += ", ", values += ", ";
    names += column.name;
    if (kind_ == Place::Kind::sqlite) {
      values += fmt::format(":v{}", i);
    } else {
      values += fmt::format("CAST(:v{} AS {}[])", i, column.is_text ? "text" : "bigint");
    }
    if (column.name == id) id_column_ = i;
  }
  const bool sqlite = kind_ == Place::Kind::sqlite;
  std::string sql = fmt::format("INSERT INTO {} ({}) ", table, names);
  // "WHERE true" keeps ON CONFLICT from being read as a join's ON.
  sql += sqlite ? fmt::format("VALUES ({})", values)
                : fmt::format("SELECT * FROM unnest({}) WHERE true", values);
  sql += " " + conflict;
  if (tells_new_ && !sqlite) sql += " RETURNING " + id;
  statement_ = std::make_unique<soci::statement>(session);
  statement_->alloc();
  statement_->prepare(sql);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (!sqlite || columns_[i].is_text) {
      statement_->exchange(soci::use(slots_[i].text, slots_[i].present));
    } else {
      statement_->exchange(soci::use(slots_[i].number, slots_[i].present));
    }
  }
  if (tells_new_ && !sqlite) statement_->exchange(soci::into(returned_));
  statement_->define_and_bind();
}

ManyRows::Slot& ManyRows::next_slot() { return slots_[at_++]; }

void ManyRows::begin_element(std::string& array) const { array += rows_ == 0 ? '{' : ','; }

void ManyRows::text(std::string_view value) {
  Slot& slot = next_slot();
  if (kind_ == Place::Kind::sqlite) {
    slot.present = value.empty() ? soci::i_null : soci::i_ok;
    slot.text = value;
    return;
  }
  begin_element(slot.text);
  if (value.empty()) {
    slot.text += "NULL";
  } else {
    quote(value, slot.text);
  }
}

void ManyRows::key(std::string_view value) {
  Slot& slot = next_slot();
  if (kind_ == Place::Kind::sqlite) {
    slot.present = soci::i_ok;
    slot.text = value;
    return;
  }
  begin_element(slot.text);
  quote(value, slot.text);
}

void ManyRows::number(const Number& value) {
  Slot& slot = next_slot();
  if (kind_ == Place::Kind::sqlite) {
    slot.present = value ? soci::i_ok : soci::i_null;
    slot.number = value.value_or(0);
    return;
  }
  begin_element(slot.text);
  slot.text += value ? fmt::format_int(*value).c_str() : "NULL";
}

void ManyRows::push() {
  at_ = 0;
  if (kind_ != Place::Kind::sqlite) {
    ++rows_;
    return;
  }
  statement_->execute(true);
  if (tells_new_ && statement_->get_affected_rows() > 0) {
    new_ids_.push_back(slots_[id_column_].text);
  }
}

void ManyRows::clear() {
  at_ = 0;
  rows_ = 0;
  for (Slot& slot : slots_) slot.text.clear();
}

std::vector<std::string> ManyRows::finish() {
  if (kind_ != Place::Kind::sqlite && rows_ > 0) {
    for (Slot& slot : slots_) {
      slot.text += '}';
      slot.present = soci::i_ok;
    }
    try {
      bool more = statement_->execute(tells_new_);
      if (!tells_new_) more = false;
      for (; more; more = statement_->fetch()) new_ids_.push_back(returned_);
    } catch (...) {
      clear();
      new_ids_.clear();
      throw;
    }
    clear();
  }
  return std::exchange(new_ids_, {});
}

// ---- Query ------------------------------------------------------------------------------------

void Query::bind(std::string name, std::string value) {
  in_.push_back(In{std::move(name), std::move(value)});
}

void Query::bind(std::string name, std::int64_t value) {
  in_.push_back(In{std::move(name), static_cast<long long>(value)});
}

void Query::into(std::string& text) { out_.push_back(Out{&text, {}}); }
void Query::into(Number& number) { out_.push_back(Out{&number, {}}); }

void Query::run() {
  statement_.alloc();
  statement_.prepare(sql_);
  for (In& in : in_) {
    if (auto* text = std::get_if<std::string>(&in.value)) {
      statement_.exchange(soci::use(*text, in.name));
    } else {
      statement_.exchange(soci::use(std::get<long long>(in.value), in.name));
    }
  }
  for (Out& out : out_) {
    if (std::holds_alternative<std::string*>(out.target)) {
      statement_.exchange(soci::into(out.text, out.present));
    } else {
      statement_.exchange(soci::into(out.number, out.present));
    }
  }
  statement_.define_and_bind();
  statement_.execute(false);
}

bool Query::fetch() {
  if (!statement_.fetch()) return false;
  for (Out& out : out_) {
    const bool there = out.present == soci::i_ok;
    if (auto* text = std::get_if<std::string*>(&out.target)) {
      **text = there ? out.text : std::string();
    } else {
      *std::get<Number*>(out.target) = there ? Number(out.number) : Number();
    }
  }
  return true;
}

}  // namespace hg::ledger
