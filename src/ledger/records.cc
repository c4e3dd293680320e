#include "ledger/records.h"

#include <fmt/format.h>

#include "ledger/sql.h"

namespace hg::ledger {

namespace {

WallTime time_of(const Number& us) { return WallTime{Micros(us.value_or(0))}; }

// One row in a transaction of its own.
class OneRow {
 public:
  OneRow(Database& database, const std::string& table, std::vector<Column> columns)
      : transaction_(database.session(), database.kind()),
        rows_(database.session(), database.kind(), table, std::move(columns), "") {}

  ManyRows& rows() { return rows_; }
  void finish() {
    static_cast<void>(rows_.finish());
    transaction_.commit();
  }

 private:
  Transaction transaction_;
  ManyRows rows_;
};

}  // namespace

// ---- Ticks --------------------------------------------------------------------------------------

Result<void> add_tick(Database& database, const Tick& tick) {
  return guarded("writing a tick", [&]() -> Result<void> {
    OneRow row(database, "ticks",
               {{"at_us", false},
                {"pool", true},
                {"run", true},
                {"mode", true},
                {"binding", true},
                {"ceiling", false},
                {"decision", true}});
    row.rows().number(tick.at.since_epoch.count());
    for (const std::string* text : {&tick.pool, &tick.run, &tick.mode, &tick.binding}) {
      row.rows().text(*text);
    }
    row.rows().number(tick.ceiling);
    row.rows().text(tick.decision);
    row.rows().push();
    row.finish();
    return {};
  });
}

Result<std::vector<Tick>> latest_ticks(Database& database, std::int64_t most) {
  return guarded("reading ticks", [&]() -> Result<std::vector<Tick>> {
    Query query(database.session(),
                fmt::format("SELECT at_us, pool, run, mode, binding, ceiling, decision FROM ticks "
                            "ORDER BY seq DESC LIMIT {}",
                            most));
    Tick tick;
    Number at;
    query.into(at);
    for (std::string* text : {&tick.pool, &tick.run, &tick.mode, &tick.binding}) query.into(*text);
    query.into(tick.ceiling);
    query.into(tick.decision);
    query.run();
    std::vector<Tick> ticks;
    while (query.fetch()) {
      tick.at = time_of(at);
      ticks.push_back(tick);
    }
    return ticks;
  });
}

// ---- Seeds --------------------------------------------------------------------------------------

Result<void> add_seeds(Database& database, const std::vector<Seed>& seeds) {
  return guarded("writing seeds", [&]() -> Result<void> {
    OneRow row(database, "pool_seeds",
               {{"pool", true},
                {"name", true},
                {"value", false},
                {"source", true},
                {"measured_at_us", false}});
    for (const Seed& seed : seeds) {
      row.rows().text(seed.pool);
      row.rows().text(seed.name);
      row.rows().number(seed.value);
      row.rows().text(seed.source);
      row.rows().number(seed.measured_at.since_epoch.count());
      row.rows().push();
    }
    row.finish();
    return {};
  });
}

Result<std::vector<Seed>> latest_seeds(Database& database, const std::string& pool) {
  return guarded("reading seeds", [&]() -> Result<std::vector<Seed>> {
    Query query(database.session(),
                "SELECT pool, name, value, source, measured_at_us FROM pool_seeds WHERE seq IN "
                "(SELECT max(seq) FROM pool_seeds WHERE pool = :pool GROUP BY name) ORDER BY name");
    query.bind("pool", pool);
    Seed seed;
    Number value;
    Number at;
    query.into(seed.pool);
    query.into(seed.name);
    query.into(value);
    query.into(seed.source);
    query.into(at);
    query.run();
    std::vector<Seed> seeds;
    while (query.fetch()) {
      seed.value = value.value_or(0);
      seed.measured_at = time_of(at);
      seeds.push_back(seed);
    }
    return seeds;
  });
}

// ---- Observations -------------------------------------------------------------------------------

Result<void> add_observation(Database& database, const Observation& observation) {
  return guarded("writing an observation", [&]() -> Result<void> {
    OneRow row(database, "observations",
               {{"at_us", false}, {"pool", true}, {"phase", true}, {"data", true}});
    row.rows().number(observation.at.since_epoch.count());
    row.rows().text(observation.pool);
    row.rows().text(observation.phase);
    row.rows().text(observation.data);
    row.rows().push();
    row.finish();
    return {};
  });
}

Result<std::vector<Observation>> observations_of(Database& database, const std::string& pool) {
  return guarded("reading observations", [&]() -> Result<std::vector<Observation>> {
    Query query(
        database.session(),
        "SELECT at_us, pool, phase, data FROM observations WHERE pool = :pool ORDER BY seq");
    query.bind("pool", pool);
    Observation seen;
    Number at;
    query.into(at);
    query.into(seen.pool);
    query.into(seen.phase);
    query.into(seen.data);
    query.run();
    std::vector<Observation> all;
    while (query.fetch()) {
      seen.at = time_of(at);
      all.push_back(seen);
    }
    return all;
  });
}

// ---- Settings and edits -------------------------------------------------------------------------

Result<Edit> edit_setting(Database& database, const Edit& wanted,
                          std::optional<std::int64_t> expected) {
  return guarded("writing a setting", [&]() -> Result<Edit> {
    soci::session& session = database.session();
    const Place::Kind kind = database.kind();
    Transaction transaction(session, kind);
    Edit edit = wanted;
    Number version;
    {
      Query query(session,
                  "SELECT value, version FROM settings WHERE scope = :scope AND "
                  "name = :name");
      // Whoever edits the same one waits here.
      if (kind == Place::Kind::postgresql) query.add(" FOR UPDATE");
      query.bind("scope", edit.scope);
      query.bind("name", edit.name);
      query.into(edit.old_value);
      query.into(version);
      query.run();
      while (query.fetch()) continue;
    }
    const std::int64_t present = version.value_or(0);
    if (expected && *expected != present) {
      return fail(Errc::conflict, fmt::format("{} of {} has version {}, not {}", edit.name,
                                              edit.scope, present, *expected));
    }
    edit.version = present + 1;
    ManyRows settings(session, kind, "settings",
                      {{"scope", true}, {"name", true}, {"value", true}, {"version", false}},
                      "ON CONFLICT (scope, name) DO UPDATE SET value = excluded.value, "
                      "version = excluded.version");
    settings.text(edit.scope);
    settings.text(edit.name);
    settings.text(edit.new_value);
    settings.number(edit.version);
    settings.push();
    static_cast<void>(settings.finish());
    // Two that make the same new setting at once meet in the audit's key: (scope, name, version).
    ManyRows edits(session, kind, "edits",
                   {{"at_us", false},
                    {"actor", true},
                    {"reason", true},
                    {"scope", true},
                    {"name", true},
                    {"old_value", true},
                    {"new_value", true},
                    {"version", false}},
                   "ON CONFLICT (scope, name, version) DO NOTHING", "name");
    edits.number(edit.at.since_epoch.count());
    for (const std::string* text :
         {&edit.actor, &edit.reason, &edit.scope, &edit.name, &edit.old_value, &edit.new_value}) {
      edits.text(*text);
    }
    edits.number(edit.version);
    edits.push();
    if (edits.finish().empty()) {
      return fail(Errc::conflict, fmt::format("{} of {} was changed by somebody else at the same "
                                              "moment",
                                              edit.name, edit.scope));
    }
    transaction.commit();
    return edit;
  });
}

Result<std::vector<Setting>> settings_of(Database& database, const std::string& scope) {
  return guarded("reading settings", [&]() -> Result<std::vector<Setting>> {
    Query query(database.session(),
                "SELECT scope, name, value, version FROM settings WHERE scope = :scope "
                "ORDER BY name");
    query.bind("scope", scope);
    Setting setting;
    Number version;
    query.into(setting.scope);
    query.into(setting.name);
    query.into(setting.value);
    query.into(version);
    query.run();
    std::vector<Setting> settings;
    while (query.fetch()) {
      setting.version = version.value_or(0);
      settings.push_back(setting);
    }
    return settings;
  });
}

Result<std::vector<Edit>> latest_edits(Database& database, const std::string& scope,
                                       std::int64_t most) {
  return guarded("reading edits", [&]() -> Result<std::vector<Edit>> {
    Query query(database.session(),
                "SELECT at_us, actor, reason, scope, name, old_value, new_value, version "
                "FROM edits WHERE true");
    if (!scope.empty()) {
      query.add(" AND scope = :scope");
      query.bind("scope", scope);
    }
    query.add(fmt::format(" ORDER BY seq DESC LIMIT {}", most));
    Edit edit;
    Number at;
    Number version;
    query.into(at);
    for (std::string* text :
         {&edit.actor, &edit.reason, &edit.scope, &edit.name, &edit.old_value, &edit.new_value}) {
      query.into(*text);
    }
    query.into(version);
    query.run();
    std::vector<Edit> edits;
    while (query.fetch()) {
      edit.at = time_of(at);
      edit.version = version.value_or(0);
      edits.push_back(edit);
    }
    return edits;
  });
}

}  // namespace hg::ledger
