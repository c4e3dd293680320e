// database.h: where the ledger lives: an SQLite file or a PostgreSQL database, behind one set of
// statements.
//
// The schema is brought up to date when it is opened: versioned, forward only, under a lock, so
// that many may open it at once. A database of a later release is refused by name. Every function
// that writes is one transaction. No exception comes out. Thread-safety: none, but interrupt() may
// be called from any thread while the object lives.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "ledger/call_row.h"

namespace soci {
class session;
}

namespace hg::ledger {

// What a ledger is opened with: "postgresql://..." or the path of a file.
struct Place {
  enum class Kind : std::uint8_t { sqlite, postgresql };
  Kind kind = Kind::sqlite;
  std::string target;  // The path, or the URL.

  // For logs and people: the URL without its password.
  [[nodiscard]] std::string shown() const;
};

// Errc::invalid: neither; the detail says what is allowed and holds no password.
[[nodiscard]] Result<Place> parse_place(std::string_view text);

// Rows that could not be kept, by reason: "torn", "disk full", "spool full".
struct Loss {
  WallTime at;
  std::string owner;  // The process that lost them.
  std::string reason;
  std::int64_t rows = 0;
};

class Database {
 public:
  enum class Access : std::uint8_t {
    create,    // Makes the file if it is not there.
    existing,  // Errc::not_found if it is not there.
  };

  // Connects and brings the schema up to date. Errc::unavailable: not there, or not now;
  // Errc::conflict: of a later release; Errc::not_found. Blocks for at most some ten seconds.
  [[nodiscard]] static Result<std::unique_ptr<Database>> open(const Place& place, Access access,
                                                              WallTime now);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Adds the rows whose ids the ledger does not have, and counts these in the hours, runs and
  // tasks: all or nothing. Answers how many were new. Errc::unavailable.
  [[nodiscard]] Result<std::size_t> insert_calls(std::span<const CallRow> rows);
  [[nodiscard]] Result<void> insert_losses(std::span<const Loss> losses);

  // Makes what blocks in another thread fail soon.
  void interrupt();

  [[nodiscard]] Place::Kind kind() const;
  // The version of the schema that this release has.
  [[nodiscard]] static std::int64_t schema_version();

  // For the statements of this module's other files; sql.h has the helpers.
  [[nodiscard]] soci::session& session();

 private:
  struct State;
  explicit Database(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hg::ledger
