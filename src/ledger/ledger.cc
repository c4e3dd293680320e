#include "ledger/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"

namespace hg::ledger {

namespace {

constexpr std::size_t kBatchRows = 1000;
constexpr Micros kRetryFirst = 500ms;
constexpr Micros kRetryMax = 10s;
constexpr Micros kRetryClosing = 100ms;

}  // namespace

struct Ledger::State {
  State(const LedgerOptions& its_options, const Clock& its_clock, SpoolFolder its_folder,
        std::string its_owner)
      : options(its_options),
        clock(its_clock),
        owner(std::move(its_owner)),
        folder(std::move(its_folder)),
        writer(folder, options.spool),
        reader(folder) {}

  enum class Phase : std::uint8_t {
    open,
    closing,  // Nothing is recorded any more; what there is goes to the database.
    give_up,  // There was no time for it.
    ended,    // The thread is done.
  };

  void run();
  [[nodiscard]] Phase phase() const;
  [[nodiscard]] bool connect();
  void disconnect(const Error& error);
  [[nodiscard]] bool adopt();
  [[nodiscard]] bool drain(SpoolReader& from, const SpoolMark& until, bool own);
  [[nodiscard]] bool drain_memory();
  [[nodiscard]] bool write_losses();
  void lose(const std::string& reason, std::uint64_t rows);
  void note_damage(SpoolReader& from);
  void keep_in_memory(const CallRow& row, const Error& why);
  [[nodiscard]] bool behind() const;  // Rows of the spool are not yet in the database.
  [[nodiscard]] bool has_work() const;
  void rest_until_work();
  void rest(Phase during);
  void end_in_order();

  const LedgerOptions options;
  const Clock& clock;
  const std::string owner;
  SpoolFolder folder;
  SpoolWriter writer;  // Of record()'s thread.
  SpoolReader reader;  // Of the ledger's own, as are these.
  SpoolMark drained;
  Micros retry = kRetryFirst;

  std::atomic<std::uint64_t> recorded{0};
  std::atomic<std::uint64_t> stored{0};
  std::atomic<std::uint64_t> lost{0};
  std::atomic<std::uint64_t> recovered{0};
  std::atomic<bool> idle{false};  // The ledger's thread sleeps until there is work.

  mutable std::mutex mutex;  // For what follows.
  std::condition_variable changed;
  Phase phase_ = Phase::open;
  std::unique_ptr<Database> database;  // Used by the ledger's thread only, but for interrupt().
  std::string error = "not connected yet";
  std::deque<CallRow> memory;
  std::map<std::string, std::uint64_t> losses;  // By reason, not yet in the database.
  bool losing = false;                          // Said once in the log.

  std::thread thread;
};

// ---- The calls' side ----------------------------------------------------------------------------

Result<std::unique_ptr<Ledger>> Ledger::open(const LedgerOptions& options, const Clock& clock) {
  std::string owner = fmt::format("{:016x}", os_random_seed());
  Result<SpoolFolder> folder = SpoolFolder::create(options.spool_root, owner);
  if (!folder) return std::unexpected(folder.error());
  auto state = std::make_unique<State>(options, clock, std::move(*folder), std::move(owner));
  auto database = Database::open(options.place, Database::Access::create, clock.wall());
  if (database) {
    state->database = std::move(*database);
    state->error.clear();
  } else {
    state->error = database.error().detail;
    if (database.error().code == Errc::conflict) {
      state->folder.remove_if_empty();
      return std::unexpected(database.error());
    }
    log_warn("the ledger is away, calls are kept in {} until it is back: {}", options.spool_root,
             database.error().detail);
  }
  State& running = *state;
  running.thread = std::thread([&running] { running.run(); });
  return std::unique_ptr<Ledger>(new Ledger(std::move(state)));
}

Ledger::Ledger(std::unique_ptr<State> state) : state_(std::move(state)) {}

Ledger::~Ledger() { close(0s); }

void Ledger::record(const CallRow& row) {
  State& state = *state_;
  state.recorded.fetch_add(1, std::memory_order_relaxed);
  if (const Result<void> kept = state.writer.append(row); !kept) {
    state.keep_in_memory(row, kept.error());
  }
  if (!state.idle.exchange(false)) return;
  {
    const std::scoped_lock lock(state.mutex);
  }
  state.changed.notify_all();
}

void Ledger::State::keep_in_memory(const CallRow& row, const Error& why) {
  const std::scoped_lock lock(mutex);
  if (!std::exchange(losing, true)) {
    log_error("{}: calls are kept in memory, at most {} of them", why.detail, options.memory_rows);
  }
  if (memory.size() < options.memory_rows) {
    memory.push_back(row);
    return;
  }
  const bool full = why.code == Errc::too_large;
  if (lost == 0) log_error("calls are lost to the ledger: {}", why.detail);
  lost += 1;
  losses[full ? "spool full" : "disk"] += 1;
}

Health Ledger::health() const {
  const State& state = *state_;
  Health health;
  health.recovered = state.recovered;
  health.stored = state.stored;
  health.lost = state.lost;
  health.recorded = state.recorded;
  const std::scoped_lock lock(state.mutex);
  health.error = state.error;
  health.connected = state.error.empty();
  const std::uint64_t done = health.stored + health.lost;
  health.pending = health.recorded > done ? health.recorded - done : 0;
  return health;
}

void Ledger::close(Micros within) {
  State& state = *state_;
  if (!state.thread.joinable()) return;
  {
    std::unique_lock lock(state.mutex);
    state.phase_ = State::Phase::closing;
    state.changed.notify_all();
    const bool ended = state.changed.wait_for(
        lock, within, [&state] { return state.phase_ == State::Phase::ended; });
    if (!ended) {
      state.phase_ = State::Phase::give_up;
      state.changed.notify_all();
      if (state.database) state.database->interrupt();
    }
  }
  state.thread.join();
  const Health health = this->health();
  if (!state.memory.empty()) {
    log_error("{} calls that the disk refused are lost to the ledger", state.memory.size());
    state.lost += state.memory.size();
    state.memory.clear();
  }
  for (const auto& [reason, rows] : state.losses) {
    log_error("{} calls were lost to the ledger ({}), which it could not be told", rows, reason);
  }
  if (health.pending > 0) {
    log_warn("{} calls wait in {} for the ledger ({}): the next start takes them along",
             health.pending, state.options.spool_root,
             health.error.empty() ? "there was no time" : health.error);
  }
}

// ---- The ledger's own thread --------------------------------------------------------------------

void Ledger::State::run() {
  bool adopted = false;
  for (;;) {
    const Phase now = phase();
    if (now == Phase::give_up) break;
    if (!database && !connect()) {
      adopted = false;
      reader.sync();
      rest(now);
      continue;
    }
    if (!adopted) adopted = adopt();
    const bool done = database && drain_memory() && drain(reader, writer.mark(), true) &&
                      write_losses();
    if (!done || has_work()) continue;
    retry = kRetryFirst;
    if (now == Phase::closing) {
      end_in_order();
      break;
    }
    rest_until_work();
  }
  const std::scoped_lock lock(mutex);
  phase_ = Phase::ended;
  changed.notify_all();
}

Ledger::State::Phase Ledger::State::phase() const {
  const std::scoped_lock lock(mutex);
  return phase_;
}

bool Ledger::State::connect() {
  auto opened = Database::open(options.place, Database::Access::create, clock.wall());
  const std::scoped_lock lock(mutex);
  if (!opened) {
    error = opened.error().detail;
    return false;
  }
  log_info("the ledger is back: {}", options.place.shown());
  database = std::move(*opened);
  error.clear();
  return true;
}

void Ledger::State::disconnect(const Error& why) {
  {
    const std::scoped_lock lock(mutex);
    error = why.detail;
    log_warn("the ledger cannot be written, calls are kept in {} until it can: {}",
             options.spool_root, error);
  }
  std::unique_ptr<Database> gone;  // Dies without the mutex: it may have to say goodbye.
  {
    const std::scoped_lock lock(mutex);
    gone = std::move(database);
  }
}

// What killed processes left. True when there is no more of it.
bool Ledger::State::adopt() {
  for (SpoolFolder& left : SpoolFolder::abandoned(options.spool_root)) {
    SpoolReader from(left);
    if (!drain(from, SpoolReader::kEverything, false)) return false;
    left.remove_if_empty();
  }
  return true;
}

bool Ledger::State::drain(SpoolReader& from, const SpoolMark& until, bool own) {
  for (;;) {
    const std::vector<CallRow> rows = from.next(kBatchRows, until);
    note_damage(from);
    if (!rows.empty()) {
      const Result<std::size_t> added = database->insert_calls(rows);
      if (!added) {
        from.rewind();
        disconnect(added.error());
        return false;
      }
      (own ? stored : recovered) += own ? rows.size() : *added;
    }
    const std::uint64_t freed = from.acknowledge(until);
    if (own) writer.freed(freed);
    if (!rows.empty()) continue;
    if (own) drained = until;
    return true;
  }
}

bool Ledger::State::behind() const {
  const SpoolMark mark = writer.mark();
  return mark.segment != drained.segment || mark.end != drained.end;
}

bool Ledger::State::drain_memory() {
  std::vector<CallRow> rows;
  {
    const std::scoped_lock lock(mutex);
    rows.assign(memory.begin(), memory.end());
  }
  if (rows.empty()) return true;
  const Result<std::size_t> added = database->insert_calls(rows);
  if (!added) {
    disconnect(added.error());
    return false;
  }
  stored += rows.size();
  const std::scoped_lock lock(mutex);
  memory.erase(memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(rows.size()));
  return true;
}

void Ledger::State::lose(const std::string& reason, std::uint64_t rows) {
  const std::scoped_lock lock(mutex);
  losses[reason] += rows;
  lost += rows;
}

void Ledger::State::note_damage(SpoolReader& from) {
  const SpoolReader::Damage damage = from.damaged();
  if (damage.places == 0) return;
  log_warn("{} bytes in {} places of a spool cannot be read: as many calls are lost to the ledger",
           damage.bytes, damage.places);
  lose("torn", damage.places);
}

bool Ledger::State::write_losses() {
  std::map<std::string, std::uint64_t> told;
  {
    const std::scoped_lock lock(mutex);
    if (losses.empty()) {
      losing = losing && !memory.empty();
      return true;
    }
    told = losses;
  }
  std::vector<Loss> rows;
  for (const auto& [reason, count] : told) {
    rows.push_back(Loss{clock.wall(), owner, reason, static_cast<std::int64_t>(count)});
  }
  const Result<void> written = database->insert_losses(rows);
  if (!written) {
    disconnect(written.error());
    return false;
  }
  const std::scoped_lock lock(mutex);
  for (const auto& [reason, count] : told) {
    std::uint64_t& rest = losses[reason];
    rest -= count;
    if (rest == 0) losses.erase(reason);
  }
  return true;
}

bool Ledger::State::has_work() const {
  const std::scoped_lock lock(mutex);
  return !memory.empty() || behind();
}

void Ledger::State::rest_until_work() {
  std::unique_lock lock(mutex);
  idle = true;
  changed.wait(lock,
               [this] { return phase_ != Phase::open || !idle || behind() || !memory.empty(); });
  idle = false;
  // More of them for one batch.
  changed.wait_for(lock, options.linger, [this] { return phase_ != Phase::open; });
}

// Until the next try to connect; a change of the phase ends it.
void Ledger::State::rest(Phase during) {
  const Micros time = during == Phase::open ? retry : kRetryClosing;
  retry = std::min(retry * 2, kRetryMax);
  std::unique_lock lock(mutex);
  changed.wait_for(lock, time, [this, during] { return phase_ != during; });
}

void Ledger::State::end_in_order() {
  // Nothing is recorded any more: the last segment is over too.
  if (drain(reader, SpoolReader::kEverything, true)) folder.remove_if_empty();
}

std::string default_spool_root(const Place& place, const std::string& state_folder) {
  if (place.kind == Place::Kind::sqlite) return place.target + "-spool";
  return fmt::format("{}/spool-{:016x}", state_folder, stable_hash(place.shown()));
}

}  // namespace hg::ledger
