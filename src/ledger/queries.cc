#include "ledger/queries.h"

#include <fmt/format.h>

#include "base/units.h"
#include "ledger/sql.h"

namespace hg::ledger {

namespace {

constexpr std::int64_t kHourUs = std::int64_t{3'600} * 1'000'000;

// " AND run = :run ..." for what the filter names.
void add_filter(Query& query, const Filter& filter, std::string_view time_column) {
  const std::pair<const char*, const std::string*> texts[] = {{"run", &filter.run},
                                                              {"task", &filter.task},
                                                              {"harness", &filter.harness},
                                                              {"model", &filter.model},
                                                              {"pool", &filter.pool}};
  for (const auto& [name, value] : texts) {
    if (value->empty()) continue;
    query.add(fmt::format(" AND {0} = :{0}", name));
    query.bind(name, *value);
  }
  if (filter.since) {
    query.add(fmt::format(" AND {} >= :since", time_column));
    query.bind("since", filter.since->since_epoch.count());
  }
  if (filter.until) {
    query.add(fmt::format(" AND {} < :until", time_column));
    query.bind("until", filter.until->since_epoch.count());
  }
}

std::string select_calls() {
  std::string sql = "SELECT seq";
  for (const CallColumn& column : call_columns()) sql += fmt::format(", {}", column.name);
  return sql + " FROM calls WHERE seq > :after";
}

// The column of usage_hours that a question is by, and where its value goes.
struct Key {
  std::string_view sql;
  std::string Usage::* field;
};

std::vector<Key> keys_of(UsageBy by) {
  switch (by) {
    case UsageBy::run: return {{"run", &Usage::run}};
    case UsageBy::task: return {{"run", &Usage::run}, {"task", &Usage::task}};
    case UsageBy::harness: return {{"harness", &Usage::harness}};
    case UsageBy::model: return {{"model", &Usage::model}};
    case UsageBy::pool: return {{"pool", &Usage::pool}};
    case UsageBy::day:
    case UsageBy::all: return {};
  }
  return {};
}

const std::pair<std::string_view, std::int64_t Usage::*> kSums[] = {
    {"calls", &Usage::calls},
    {"failed", &Usage::failed},
    {"refused_by_us", &Usage::refused_by_us},
    {"overloads", &Usage::overloads},
    {"without_usage", &Usage::without_usage},
    {"without_cost", &Usage::without_cost},
    {"uncached_tokens", &Usage::uncached_tokens},
    {"cached_tokens", &Usage::cached_tokens},
    {"cache_write_tokens", &Usage::cache_write_tokens},
    {"output_tokens", &Usage::output_tokens},
    {"reasoning_tokens", &Usage::reasoning_tokens},
    {"cost_micro_usd", &Usage::cost_micro_usd},
    {"held_us", &Usage::held_us},
    {"backed_off_us", &Usage::backed_off_us},
    {"total_us", &Usage::total_us},
};

std::string day_of(std::int64_t at_us) { return to_rfc3339(WallTime{Micros(at_us)}).substr(0, 10); }

}  // namespace

Result<std::vector<StoredCall>> find_calls(Database& database, const CallsWanted& wanted) {
  return guarded("reading calls", [&]() -> Result<std::vector<StoredCall>> {
    Query query(database.session(), select_calls());
    query.bind("after", wanted.after_seq);
    add_filter(query, wanted.filter, "started_at_us");
    if (!wanted.outcome.empty()) {
      query.add(" AND outcome = :outcome");
      query.bind("outcome", wanted.outcome);
    }
    const bool newest = wanted.order == CallsWanted::Order::newest;
    query.add(fmt::format(" ORDER BY seq{} LIMIT {}", newest ? " DESC" : "", wanted.most));
    Number seq;
    CallRow row;
    query.into(seq);
    for (const CallColumn& column : call_columns()) {
      if (const auto* text = std::get_if<std::string CallRow::*>(&column.field)) {
        query.into(row.*(*text));
      } else {
        query.into(row.*std::get<Number CallRow::*>(column.field));
      }
    }
    query.run();
    std::vector<StoredCall> calls;
    while (query.fetch()) calls.push_back(StoredCall{seq.value_or(0), row});
    return calls;
  });
}

std::optional<UsageBy> usage_by(std::string_view word) {
  const std::pair<std::string_view, UsageBy> words[] = {
      {"run", UsageBy::run},     {"task", UsageBy::task}, {"harness", UsageBy::harness},
      {"model", UsageBy::model}, {"pool", UsageBy::pool}, {"day", UsageBy::day}};
  for (const auto& [name, by] : words) {
    if (name == word) return by;
  }
  return std::nullopt;
}

Result<std::vector<Usage>> find_usage(Database& database, UsageBy by, const Filter& asked) {
  Filter filter = asked;
  if (filter.since) {
    filter.since = WallTime{
        Micros(floor_div(filter.since->since_epoch.count(), kHourUs) * kHourUs)};
  }
  if (filter.until) {
    filter.until = WallTime{Micros(ceil_div(filter.until->since_epoch.count(), kHourUs) * kHourUs)};
  }
  return guarded("reading usage", [&]() -> Result<std::vector<Usage>> {
    const std::vector<Key> keys = keys_of(by);
    const std::string day = fmt::format("hour_us - hour_us % {}", 24 * kHourUs);
    std::string group = by == UsageBy::day ? day : "";
    for (const Key& key : keys) group += fmt::format("{}{}", group.empty() ? "" : ", ", key.sql);
    Usage line;
    Number day_us;
    Query query(database.session(), "SELECT " + (group.empty() ? "" : group + ", "));
    if (by == UsageBy::day) query.into(day_us);
    for (const Key& key : keys) query.into(line.*key.field);
    // A sum of no rows is NULL; PostgreSQL's sum of bigint is a decimal number.
    std::vector<Number> sums(std::size(kSums));
    for (std::size_t i = 0; i < std::size(kSums); ++i) {
      query.add(
          fmt::format("{}CAST(coalesce(sum({}), 0) AS BIGINT)", i > 0 ? ", " : "", kSums[i].first));
      query.into(sums[i]);
    }
    query.add(" FROM usage_hours WHERE true");
    add_filter(query, filter, "hour_us");
    if (!group.empty()) query.add(" GROUP BY " + group);
    query.add(by == UsageBy::day ? " ORDER BY 1"
                                 : " ORDER BY sum(cost_micro_usd) DESC, sum(uncached_tokens + "
                                   "cached_tokens + output_tokens) DESC");
    query.run();
    std::vector<Usage> lines;
    while (query.fetch()) {
      for (std::size_t i = 0; i < std::size(kSums); ++i) {
        line.*kSums[i].second = sums[i].value_or(0);
      }
      if (day_us) line.day = day_of(*day_us);
      lines.push_back(line);
    }
    return lines;
  });
}

Result<std::vector<Loss>> find_losses(Database& database, std::optional<WallTime> since) {
  return guarded("reading losses", [&]() -> Result<std::vector<Loss>> {
    Query query(database.session(),
                "SELECT reason, CAST(sum(lost_rows) AS BIGINT), max(at_us) FROM losses "
                "WHERE at_us >= :since GROUP BY reason ORDER BY reason");
    query.bind("since", since ? since->since_epoch.count() : 0);
    Loss loss;
    Number rows;
    Number at;
    query.into(loss.reason);
    query.into(rows);
    query.into(at);
    query.run();
    std::vector<Loss> losses;
    while (query.fetch()) {
      loss.rows = rows.value_or(0);
      loss.at = WallTime{Micros(at.value_or(0))};
      losses.push_back(loss);
    }
    return losses;
  });
}

}  // namespace hg::ledger
