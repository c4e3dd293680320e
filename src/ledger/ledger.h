// ledger.h: takes one row a call and sees to it that the database gets it, once.
//
// record() is one append to a spool file (spool.h) and never waits for the database; a thread of
// the ledger's own takes the rows from there in batches, and what a killed process left behind
// first. While the database is away they stay in the spool. Rows that the disk refuses are kept in
// memory, up to a bound, and tried again; what is lost is counted, logged, told by health() and,
// as soon as there is a database, written into it.
// Thread-safety: record() and close() belong to one thread; health() may be called from any.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "ledger/call_row.h"
#include "ledger/database.h"
#include "ledger/spool.h"

namespace hg::ledger {

struct LedgerOptions {
  Place place;
  std::string spool_root;  // A folder for this place alone; made if it is not there.
  SpoolLimits spool;
  std::size_t memory_rows = 10'000;  // Rows kept in memory because the disk refused them.
  Micros linger{50'000};             // How long rows are gathered for one batch.
};

struct Health {
  bool connected = false;
  std::string error;            // Why not; "" when it is.
  std::uint64_t recorded = 0;   // Rows that record() was given.
  std::uint64_t stored = 0;     // Of them, in the database.
  std::uint64_t pending = 0;    // In the spool or in memory, on their way.
  std::uint64_t lost = 0;       // Neither; also what a killed process left and nobody can read.
  std::uint64_t recovered = 0;  // New rows that other processes had left behind.
};

class Ledger {
 public:
  // Makes the spool and tries the database once: one that is away is tried again until it is
  // there. Errc::unavailable: no spool; Errc::conflict: the database is of a later release. The
  // clock outlives it.
  [[nodiscard]] static Result<std::unique_ptr<Ledger>> open(const LedgerOptions& options,
                                                            const Clock& clock);
  ~Ledger();  // close(0s), unless that was called.
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  void record(const CallRow& row);
  [[nodiscard]] Health health() const;

  // Waits until the database has every row, or for `within`; what is left stays in the spool for
  // the next start. Nothing may be recorded afterwards.
  void close(Micros within);

 private:
  struct State;
  explicit Ledger(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Where the spool of a place is: beside an SQLite file; for PostgreSQL in `state_folder`.
[[nodiscard]] std::string default_spool_root(const Place& place, const std::string& state_folder);

}  // namespace hg::ledger
