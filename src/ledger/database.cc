#include "ledger/database.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <libpq-fe.h>
#include <soci/postgresql/soci-postgresql.h>
#include <soci/sqlite3/soci-sqlite3.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

#include "ledger/migrations.h"
#include "ledger/sql.h"

namespace hg::ledger {

namespace {

constexpr std::int64_t kHourUs = std::int64_t{3'600} * 1'000'000;
// Of the migration's lock in PostgreSQL: "headgate" as a number.
constexpr std::string_view kLockSql = "SELECT pg_advisory_xact_lock(7521383242186941541)";

bool is_postgresql(std::string_view text) {
  return text.starts_with("postgresql://") || text.starts_with("postgres://");
}

// What the URL does not say itself: a server that cannot be reached is known as such within
// seconds.
std::string with_defaults(const std::string& url) {
  const std::pair<std::string_view, std::string_view> defaults[] = {
      {"connect_timeout", "5"},        {"keepalives_idle", "10"},     {"keepalives_interval", "5"},
      {"keepalives_count", "3"},       {"tcp_user_timeout", "20000"}, {"client_encoding", "UTF8"},
      {"application_name", "headgate"}};
  std::string full = url;
  bool has_query = url.find('?') != std::string::npos;
  for (const auto& [name, value] : defaults) {
    if (url.find(fmt::format("{}=", name)) != std::string::npos) continue;
    full += fmt::format("{}{}={}", has_query ? '&' : '?', name, value);
    has_query = true;
  }
  return full;
}

// ---- What is counted beside the rows ------------------------------------------------------------

struct HourKey {
  std::int64_t hour_us = 0;
  std::string run, task, pool, harness, model;
  friend auto operator<=>(const HourKey&, const HourKey&) = default;
};

struct Sums {
  std::int64_t calls = 0, failed = 0, refused_by_us = 0, overloads = 0, without_usage = 0,
               without_cost = 0, uncached = 0, cached = 0, cache_write = 0, output = 0,
               reasoning = 0, cost = 0, held = 0, backed_off = 0, total = 0;

  void add(const CallRow& row) {
    ++calls;
    if (!row.status || *row.status >= 400) ++failed;
    if (row.own_answer.value_or(0) != 0 && row.status == Number(429)) ++refused_by_us;
    overloads += row.overloads.value_or(0);
    if (!row.uncached_tokens && !row.output_tokens) ++without_usage;
    if (!row.cost_micro_usd) ++without_cost;
    uncached += row.uncached_tokens.value_or(0);
    cached += row.cached_tokens.value_or(0);
    cache_write += row.cache_write_tokens.value_or(0);
    output += row.output_tokens.value_or(0);
    reasoning += row.reasoning_tokens.value_or(0);
    cost += row.cost_micro_usd.value_or(0);
    held += row.held_us.value_or(0);
    backed_off += row.backed_off_us.value_or(0);
    total += row.total_us.value_or(0);
  }
};

struct Span {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::string harness;
  Number attempts;
};

// "a = t.a + excluded.a, ...".
std::string added(const std::string& table, const std::vector<Column>& columns, std::size_t keys) {
  std::string text;
  for (std::size_t i = keys; i < columns.size(); ++i) {
    const std::string& name = columns[i].name;
    if (!text.empty()) text += ", ";
    text += fmt::format("{0} = {1}.{0} + excluded.{0}", name, table);
  }
  return text;
}

std::vector<Column> columns_of_calls() {
  std::vector<Column> columns;
  for (const CallColumn& column : call_columns()) {
    columns.push_back(Column{std::string(column.name), column.is_text()});
  }
  return columns;
}

std::vector<Column> columns_of_hours() {
  std::vector<Column> columns = {{"hour_us", false}};
  for (const char* name : {"run", "task", "pool", "harness", "model"}) {
    columns.push_back(Column{name, true});
  }
  for (const char* name :
       {"calls", "failed", "refused_by_us", "overloads", "without_usage", "without_cost",
        "uncached_tokens", "cached_tokens", "cache_write_tokens", "output_tokens",
        "reasoning_tokens", "cost_micro_usd", "held_us", "backed_off_us", "total_us"}) {
    columns.push_back(Column{name, false});
  }
  return columns;
}

constexpr std::string_view kSpanUpdate =
    "first_call_us = CASE WHEN excluded.first_call_us < {0}.first_call_us "
    "THEN excluded.first_call_us ELSE {0}.first_call_us END, "
    "last_call_us = CASE WHEN excluded.last_call_us > {0}.last_call_us "
    "THEN excluded.last_call_us ELSE {0}.last_call_us END";

}  // namespace

// ---- Place --------------------------------------------------------------------------------------

Result<Place> parse_place(std::string_view text) {
  if (is_postgresql(text)) return Place{Place::Kind::postgresql, std::string(text)};
  if (text.starts_with("sqlite://")) text.remove_prefix(9);
  const bool plain = !text.empty() && text.find("://") == std::string_view::npos &&
                     text.find_first_of("\"\n") == std::string_view::npos;
  if (!plain) {
    return fail(Errc::invalid,
                "a ledger is the path of an SQLite file, postgresql://USER@HOST/DATABASE, or off");
  }
  return Place{Place::Kind::sqlite, std::string(text)};
}

std::string Place::shown() const {
  if (kind == Kind::sqlite) return target;
  std::string text = target.substr(0, target.find('?'));
  const std::size_t user = text.find("://") + 3;
  const std::size_t at = text.find('@', user);
  const std::size_t colon = text.find(':', user);
  if (at != std::string::npos && colon < at) text.erase(colon, at - colon);
  return text;
}

// ---- Database -----------------------------------------------------------------------------------

struct Database::State {
  explicit State(const Place& its_place)
      : place(its_place),
        session(its_place.kind == Place::Kind::sqlite
                    ? soci::connection_parameters(
                          soci::sqlite3, fmt::format("db=\"{}\" timeout=5", its_place.target))
                    : soci::connection_parameters("postgresql", with_defaults(its_place.target))) {}

  void prepare_session();
  [[nodiscard]] bool has_schema_table();
  [[nodiscard]] std::int64_t version();
  [[nodiscard]] Result<void> migrate(WallTime now);
  void count(const std::vector<const CallRow*>& rows);
  [[nodiscard]] ManyRows& many(std::unique_ptr<ManyRows>& slot, const std::string& table,
                               std::vector<Column> columns, const std::string& conflict,
                               const std::string& id = "");

  Place place;
  soci::session session;
  // Prepared at their first use; they die before the session.
  std::unique_ptr<ManyRows> calls;
  std::unique_ptr<ManyRows> hours;
  std::unique_ptr<ManyRows> runs;
  std::unique_ptr<ManyRows> tasks;
};

Database::Database(std::unique_ptr<State> state) : state_(std::move(state)) {}
Database::~Database() = default;

Result<std::unique_ptr<Database>> Database::open(const Place& place, Access access, WallTime now) {
  const std::string what = "the ledger " + place.shown();
  struct stat facts{};
  if (place.kind == Place::Kind::sqlite && access == Access::existing &&
      ::stat(place.target.c_str(), &facts) != 0) {
    return fail(Errc::not_found, what + " is not there yet");
  }
  try {
    auto state = std::make_unique<State>(place);
    state->prepare_session();
    if (Result<void> done = state->migrate(now); !done) return std::unexpected(done.error());
    return std::unique_ptr<Database>(new Database(std::move(state)));
  } catch (const std::exception& error) {
    return fail(Errc::unavailable, what + ": " + one_line(error.what()));
  }
}

void Database::State::prepare_session() {
  if (place.kind == Place::Kind::postgresql) return;
  // Readers and the writer do not wait for each other, and what was committed outlives a power cut.
  std::string mode;
  session << "PRAGMA journal_mode=WAL", soci::into(mode);
  session << "PRAGMA synchronous=FULL";
}

bool Database::State::has_schema_table() {
  long long count = 0;
  session << (place.kind == Place::Kind::sqlite
                  ? "SELECT count(*) FROM sqlite_master WHERE name = 'headgate_schema'"
                  : "SELECT count(*) FROM pg_class WHERE oid = to_regclass('headgate_schema')"),
      soci::into(count);
  return count > 0;
}

std::int64_t Database::State::version() {
  if (!has_schema_table()) return 0;
  long long version = 0;
  session << "SELECT coalesce(max(version), 0) FROM headgate_schema", soci::into(version);
  return version;
}

Result<void> Database::State::migrate(WallTime now) {
  const auto newer = [this](std::int64_t found) {
    return fail(Errc::conflict,
                fmt::format("the ledger {} has schema {}, made by a later release; this one knows "
                            "up to {}: use that release, or another ledger",
                            place.shown(), found, latest_version()));
  };
  std::int64_t found = version();
  if (found > latest_version()) return newer(found);
  if (found == latest_version()) return {};
  // Whoever comes second finds it done.
  session << (place.kind == Place::Kind::sqlite ? "BEGIN EXCLUSIVE" : "BEGIN");
  try {
    if (place.kind == Place::Kind::postgresql) session << std::string(kLockSql);
    if (!has_schema_table()) {
      session << "CREATE TABLE headgate_schema (version BIGINT PRIMARY KEY, "
                 "applied_at_us BIGINT NOT NULL)";
    }
    found = version();
    if (found > latest_version()) {
      session << "ROLLBACK";
      return newer(found);
    }
    for (; found < latest_version(); ++found) {
      for (const std::string& statement : migration_from(found, place.kind)) session << statement;
      session << fmt::format("INSERT INTO headgate_schema VALUES ({}, {})", found + 1,
                             now.since_epoch.count());
    }
    session << "COMMIT";
  } catch (...) {
    session << "ROLLBACK";
    throw;
  }
  return {};
}

ManyRows& Database::State::many(std::unique_ptr<ManyRows>& slot, const std::string& table,
                                std::vector<Column> columns, const std::string& conflict,
                                const std::string& id) {
  if (!slot) {
    slot = std::make_unique<ManyRows>(session, place.kind, table, std::move(columns), conflict, id);
  }
  return *slot;
}

// Sorted by their keys, so that two writers take the same rows in the same order.
void Database::State::count(const std::vector<const CallRow*>& rows) {
  std::map<HourKey, Sums> by_hour;
  std::map<std::string, Span> by_run;
  std::map<std::pair<std::string, std::string>, Span> by_task;
  const auto widen = [](Span& span, std::int64_t at) {
    if (span.last == 0) span.first = at;
    span.first = std::min(span.first, at);
    span.last = std::max(span.last, at);
  };
  for (const CallRow* row : rows) {
    const std::int64_t at = row->started_at_us.value_or(0);
    by_hour[HourKey{at - at % kHourUs, row->run, row->task, row->pool, row->harness, row->model}]
        .add(*row);
    if (!row->run.empty()) widen(by_run[row->run], at);
    if (row->task.empty()) continue;
    Span& task = by_task[{row->run, row->task}];
    widen(task, at);
    task.harness = row->harness;
    if (row->attempt) task.attempts = std::max(task.attempts.value_or(0), *row->attempt);
  }

  std::vector<Column> columns = columns_of_hours();
  const std::string add = added("usage_hours", columns, 6);
  ManyRows& hour_rows = many(hours, "usage_hours", std::move(columns),
                             "ON CONFLICT (hour_us, run, task, pool, harness, model) "
                             "DO UPDATE SET " +
                                 add);
  for (const auto& [key, sums] : by_hour) {
    hour_rows.number(key.hour_us);
    for (const std::string* text : {&key.run, &key.task, &key.pool, &key.harness, &key.model}) {
      hour_rows.key(*text);
    }
    for (const std::int64_t sum :
         {sums.calls, sums.failed, sums.refused_by_us, sums.overloads, sums.without_usage,
          sums.without_cost, sums.uncached, sums.cached, sums.cache_write, sums.output,
          sums.reasoning, sums.cost, sums.held, sums.backed_off, sums.total}) {
      hour_rows.number(sum);
    }
    hour_rows.push();
  }
  static_cast<void>(hour_rows.finish());

  ManyRows& run_rows = many(runs, "runs",
                            {{"id", true}, {"first_call_us", false}, {"last_call_us", false}},
                            "ON CONFLICT (id) DO UPDATE SET " + fmt::format(kSpanUpdate, "runs"));
  for (const auto& [id, span] : by_run) {
    run_rows.text(id);
    run_rows.number(span.first);
    run_rows.number(span.last);
    run_rows.push();
  }
  static_cast<void>(run_rows.finish());

  ManyRows& task_rows = many(tasks, "tasks",
                             {{"run", true},
                              {"id", true},
                              {"harness", true},
                              {"first_call_us", false},
                              {"last_call_us", false},
                              {"attempts", false}},
                             "ON CONFLICT (run, id) DO UPDATE SET " +
                                 fmt::format(kSpanUpdate, "tasks") +
                                 ", harness = coalesce(excluded.harness, tasks.harness), "
                                 "attempts = coalesce(excluded.attempts, tasks.attempts)");
  for (const auto& [key, span] : by_task) {
    task_rows.key(key.first);
    task_rows.text(key.second);
    task_rows.text(span.harness);
    task_rows.number(span.first);
    task_rows.number(span.last);
    task_rows.number(span.attempts);
    task_rows.push();
  }
  static_cast<void>(task_rows.finish());
}

Result<std::size_t> Database::insert_calls(std::span<const CallRow> rows) {
  return guarded("writing calls", [&]() -> Result<std::size_t> {
    ManyRows& calls = state_->many(state_->calls, "calls", columns_of_calls(),
                                   "ON CONFLICT (id) DO NOTHING", "id");
    Transaction transaction(state_->session, state_->place.kind);
    std::map<std::string_view, const CallRow*> by_id;
    for (const CallRow& row : rows) {
      if (!by_id.emplace(row.id, &row).second) continue;
      for (const CallColumn& column : call_columns()) {
        if (const auto* text = std::get_if<std::string CallRow::*>(&column.field)) {
          calls.text(row.*(*text));
        } else {
          calls.number(row.*std::get<Number CallRow::*>(column.field));
        }
      }
      calls.push();
    }
    std::vector<const CallRow*> fresh;
    for (const std::string& id : calls.finish()) fresh.push_back(by_id.at(id));
    state_->count(fresh);
    transaction.commit();
    return fresh.size();
  });
}

Result<void> Database::insert_losses(std::span<const Loss> losses) {
  return guarded("writing losses", [&]() -> Result<void> {
    ManyRows rows(state_->session, state_->place.kind, "losses",
                  {{"at_us", false}, {"owner", true}, {"reason", true}, {"lost_rows", false}}, "");
    Transaction transaction(state_->session, state_->place.kind);
    for (const Loss& loss : losses) {
      rows.number(loss.at.since_epoch.count());
      rows.text(loss.owner);
      rows.text(loss.reason);
      rows.number(loss.rows);
      rows.push();
    }
    static_cast<void>(rows.finish());
    transaction.commit();
    return {};
  });
}

void Database::interrupt() {
  // The backends' types are hidden in their libraries: the kind says which one it is.
  soci::details::session_backend* backend = state_->session.get_backend();
  if (state_->place.kind == Place::Kind::sqlite) {
    sqlite_api::sqlite3_interrupt(static_cast<soci::sqlite3_session_backend*>(backend)->conn_);
  } else {
    // libpq came with the backend: it is loaded, and not linked.
    void* libpq = ::dlopen("libpq.so.5", RTLD_LAZY | RTLD_NOLOAD);
    if (libpq == nullptr) return;
    auto* socket_of = reinterpret_cast<decltype(&::PQsocket)>(::dlsym(libpq, "PQsocket"));
    PGconn* connection = static_cast<soci::postgresql_session_backend*>(backend)->conn_;
    if (socket_of != nullptr) ::shutdown(socket_of(connection), SHUT_RDWR);
    ::dlclose(libpq);
  }
}

Place::Kind Database::kind() const { return state_->place.kind; }
std::int64_t Database::schema_version() { return latest_version(); }
soci::session& Database::session() { return state_->session; }

}  // namespace hg::ledger
