// sql.h: what the statements of this module share: transactions, many rows at once, filters, and
// exceptions turned into errors. Only the module's own .cc files include it: SOCI stays in them.
//
// Thread-safety: none; everything belongs to one session.
#pragma once
#include <soci/soci.h>

#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "ledger/call_row.h"
#include "ledger/database.h"

namespace hg::ledger {

// A database's message without its line breaks, cut where it has said enough.
[[nodiscard]] std::string one_line(std::string_view message);

// Runs `work` (which answers a Result) and makes an Error of what a database throws.
template <typename Work>
auto guarded(std::string_view what, Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    return fail(Errc::unavailable, std::string(what) + ": " + one_line(error.what()));
  }
}

// One transaction that writes; rolled back unless committed.
class Transaction {
 public:
  Transaction(soci::session& session, Place::Kind kind);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  soci::session& session_;
  bool open_ = true;
};

struct Column {
  std::string name;
  bool is_text = false;
};

using Value = std::variant<std::string, Number>;  // An empty text is NULL.

// One INSERT for any number of rows: prepared once and run a row at a time in SQLite, where that is
// fastest; one statement with an array a column in PostgreSQL, where a row at a time would be a
// round trip a row.
class ManyRows {
 public:
  // `conflict` stands behind the values. `id`: the column by which the new rows are told apart, ""
  // if nobody asks.
  ManyRows(soci::session& session, Place::Kind kind, const std::string& table,
           std::vector<Column> columns, const std::string& conflict, const std::string& id = "");

  // A row: each column in its order, then push().
  void text(std::string_view value);
  void key(std::string_view value);  // Never NULL: "" is a key too.
  void number(const Number& value);
  void push();

  // Ends this set of rows. With an `id`: those of the rows that were new.
  [[nodiscard]] std::vector<std::string> finish();

 private:
  struct Slot {
    std::string text;  // The value; in PostgreSQL the array of all of them so far.
    long long number = 0;
    soci::indicator present = soci::i_null;
  };
  [[nodiscard]] Slot& next_slot();
  void begin_element(std::string& array) const;
  void clear();

  Place::Kind kind_;
  std::vector<Column> columns_;
  std::size_t id_column_ = 0;
  bool tells_new_ = false;
  std::deque<Slot> slots_;  // One a column; SOCI keeps references.
  std::size_t at_ = 0;      // The column that comes next.
  std::size_t rows_ = 0;    // In the arrays.
  std::string returned_;    // PostgreSQL: the id of a new row.
  std::vector<std::string> new_ids_;
  std::unique_ptr<soci::statement> statement_;
};

// A statement that is put together from parts, with values for the names in it.
class Query {
 public:
  Query(soci::session& session, std::string sql) : sql_(std::move(sql)), statement_(session) {}

  void add(std::string_view sql) { sql_ += sql; }
  // Puts `value` in the place of ":name".
  void bind(std::string name, std::string value);
  void bind(std::string name, std::int64_t value);
  // The columns, in their order.
  void into(std::string& text);
  void into(Number& number);

  void run();
  // The next row, in what into() was given: absent where NULL.
  [[nodiscard]] bool fetch();

 private:
  struct In {
    std::string name;
    std::variant<std::string, long long> value;
  };
  struct Out {
    std::variant<std::string*, Number*> target;
    std::string text;
    long long number = 0;
    soci::indicator present = soci::i_null;
  };
  std::string sql_;
  std::deque<In> in_;
  std::deque<Out> out_;
  soci::statement statement_;
};

}  // namespace hg::ledger
