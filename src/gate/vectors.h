// vectors.h: plays the recorded decisions of tests/vectors/*.json (format: the README.md there) on
// any pool that answers as gate/pool.h says: the one in memory, and gate.lua in a store.
//
// For tests only.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gate/pool.h"

namespace hg::gate::vectors {

namespace json = boost::json;

inline std::int64_t number(const json::object& from, const char* name, std::int64_t otherwise) {
  const json::value* value = from.if_contains(name);
  return value == nullptr ? otherwise : value->to_number<std::int64_t>();
}

inline std::string text(const json::object& from, const char* name, const char* otherwise = "") {
  const json::value* value = from.if_contains(name);
  return value == nullptr ? otherwise : std::string(value->as_string());
}

inline const char* word(Verdict verdict) {
  switch (verdict) {
    case Verdict::admitted: return "admitted";
    case Verdict::denied: return "denied";
    case Verdict::ended: return "ended";
    case Verdict::no_pool: return "no_pool";
  }
  return "";
}

// Starts from `config`, so that a step names only what it changes.
inline PoolConfig read_config(const json::object& from, PoolConfig config) {
  Limits& limits = config.limits;
  limits.c_burst = number(from, "c_burst", limits.c_burst);
  limits.r_tok = number(from, "r_tok", limits.r_tok);
  limits.k_inflight = number(from, "k_inflight", limits.k_inflight);
  limits.c_req = number(from, "c_req", limits.c_req);
  limits.r_qps = number(from, "r_qps", limits.r_qps);
  if (from.contains("c_out")) {
    limits.c_out.reset();
    limits.r_out.reset();
    if (!from.at("c_out").is_null()) {
      limits.c_out = number(from, "c_out", 0);
      limits.r_out = number(from, "r_out", 0);
    }
  }
  config.kappa_micro = number(from, "kappa_micro", config.kappa_micro);
  config.priority_head_start_max = Micros{
      number(from, "priority_head_start_max_us", config.priority_head_start_max.count())};
  if (from.contains("refused_calls_count")) {
    config.refused_calls_count = from.at("refused_calls_count").as_bool();
  }
  return config;
}

inline Weights read_weights(const json::object& from) {
  const Weights none;
  return {number(from, "w_cached_ppm", none.cached_ppm),
          number(from, "w_output_ppm", none.output_ppm)};
}

// How the pool of a file begins.
struct Beginning {
  explicit Beginning(const json::object& file)
      : config(read_config(file.at("config").as_object(), PoolConfig{})),
        birth(text(file, "birth") == "full" ? Birth::created_full : Birth::restored_empty),
        start{Micros{number(file, "start_us", 0)}},
        version(number(file, "version", 1)) {}

  PoolConfig config;
  Birth birth;
  Instant start;
  std::int64_t version;
};

// Plays one file on `pool`, made as Beginning says; `play` fills in what the pool answered. A
// template because the pool in a store is no Pool, but answers the same calls.
template <typename AnyPool>
class Player {
 public:
  Player(AnyPool pool, Instant start) : start_(start), pool_(std::move(pool)) {
    state_ = state(start_);
  }

  // The step's input, followed by reply, wake and after as they are now.
  json::object play(const json::object& step) {
    json::object played;
    for (const json::key_value_pair& field : step) {
      const std::string_view name(field.key());
      if (name != "reply" && name != "wake" && name != "after") played.emplace(name, field.value());
    }
    const Instant now = start_ + Micros{number(step, "at_us", 0)};
    json::object reply = operate(step, now);
    if (!reply.empty()) played["reply"] = std::move(reply);
    if (const std::optional<Wake> wake = pool_.take_wake()) played["wake"] = told(*wake);
    const json::object present = state(now);
    json::object changed;
    for (const json::key_value_pair& field : present) {
      const json::value* before = state_.if_contains(field.key());
      if (before == nullptr || !(*before == field.value())) {
        changed.emplace(field.key(), field.value());
      }
    }
    state_ = present;
    if (!changed.empty()) played["after"] = std::move(changed);
    return played;
  }

 private:
  std::int64_t relative(Instant at) const { return (at - start_).count(); }

  json::object told(const Wake& wake) const {
    return {{"id", wake.id}, {"shim", wake.shim}, {"at_us", relative(wake.at)}};
  }

  json::object operate(const json::object& step, Instant now) {
    const std::string op = text(step, "op");
    const std::string id = text(step, "id");
    const Micros ttl{number(step, "lease_ttl_us", 30'000'000)};
    if (op == "acquire") return reply_of(pool_.acquire(read_request(step), now));
    if (op == "settle") return {{"done", pool_.settle(read_settlement(step), now)}};
    if (op == "overload") return {{"done", pool_.overload(id, now)}};
    if (op == "leave") {
      const auto why = text(step, "leaving") == "timed_out" ? Pool::Leaving::timed_out
                                                            : Pool::Leaving::gone;
      return {{"done", pool_.leave(id, why, now)}};
    }
    if (op == "renew") {
      const std::vector<LeaseRenewal> leases = read_leases(step);
      const RenewReply reply = pool_.renew(text(step, "shim"), leases, ttl, now);
      return {{"share_ppm", reply.share_ppm}, {"shims", reply.shims}, {"epoch", reply.epoch}};
    }
    if (op == "farewell") return pool_.farewell(text(step, "shim"), now), json::object{};
    if (op == "configure") {
      const PoolConfig wanted = read_config(step.at("config").as_object(), pool_.config());
      const Result<std::int64_t> version = pool_.configure(number(step, "expected_version", 0),
                                                           wanted, now);
      if (!version) return {{"error", to_string(version.error().code)}};
      return {{"version", *version}};
    }
    if (op == "restore") {
      const PoolConfig wanted = read_config(step.at("config").as_object(), pool_.config());
      return {{"done", pool_.restore(number(step, "version", 0), wanted, now)}};
    }
    if (op == "pause") {
      json::array all;
      const Micros length{number(step, "duration_us", 0)};
      for (const Wake& wake : pool_.pause(length, now)) all.push_back(told(wake));
      return {{"told", std::move(all)}};
    }
    if (op == "resume") return pool_.resume(now), json::object{};
    if (op == "step") return pool_.step(now), json::object{};
    ADD_FAILURE() << "unknown op " << op;
    return {};
  }

  static AcquireRequest read_request(const json::object& step) {
    AcquireRequest request;
    request.id = text(step, "id");
    request.shim = text(step, "shim");
    request.alias = text(step, "alias", "pool/harness");
    request.charge = number(step, "charge", 0);
    request.estimate = number(step, "estimate", request.charge);
    request.output = number(step, "output", 0);
    request.hold_left = Micros{number(step, "hold_left_us", 60'000'000)};
    request.head_start = Micros{number(step, "head_start_us", 0)};
    request.since = Micros{number(step, "since_us", 0)};
    request.lease_ttl = Micros{number(step, "lease_ttl_us", 30'000'000)};
    request.weights = read_weights(step);
    return request;
  }

  static SettleRequest read_settlement(const json::object& step) {
    SettleRequest request;
    request.id = text(step, "id");
    const std::string by = text(step, "by");
    request.by = by == "usage"    ? Settlement::usage
                 : by == "refund" ? Settlement::refund
                                  : Settlement::estimate;
    request.usage = {number(step, "uncached", 0), number(step, "cached", 0),
                     number(step, "output", 0)};
    request.text_chars = number(step, "text_chars", 0);
    request.flat_tokens = number(step, "flat_tokens", 0);
    request.overloaded = number(step, "overloaded", 0) != 0;
    return request;
  }

  static std::vector<LeaseRenewal> read_leases(const json::object& step) {
    std::vector<LeaseRenewal> leases;
    const json::value* all = step.if_contains("leases");
    if (all == nullptr) return leases;
    for (const json::value& value : all->as_array()) {
      const json::object& lease = value.as_object();
      const Tokens charge = number(lease, "charge", 0);
      leases.push_back({text(lease, "id"), text(lease, "alias", "pool/harness"),
                        number(lease, "estimate", charge), charge, number(lease, "output", 0),
                        read_weights(lease)});
    }
    return leases;
  }

  static json::object reply_of(const AcquireReply& reply) {
    json::object out{{"verdict", word(reply.verdict)}};
    if (reply.verdict == Verdict::denied) {
      out["axis"] = to_string(reply.axis);
      out["place"] = reply.place;
      out["predicted_wait_us"] = reply.predicted_wait.count();
      if (reply.pause_left > 0us) out["pause_left_us"] = reply.pause_left.count();
    }
    out["share_ppm"] = reply.share_ppm;
    out["shims"] = reply.shims;
    out["epoch"] = reply.epoch;
    return out;
  }

  json::object state(Instant now) {
    const PoolView view = pool_.view(now);
    json::object out{{"tokens", view.tokens}, {"requests", view.requests}};
    out["out"] = view.out ? json::value(*view.out) : json::value(nullptr);
    out["inflight"] = view.inflight;
    json::array leases;
    for (const LeaseView& lease : view.leases) leases.push_back(json::value(lease.id));
    out["leases"] = std::move(leases);
    json::array waiters;
    for (const WaiterView& waiter : view.waiters) waiters.push_back(json::value(waiter.id));
    out["waiters"] = std::move(waiters);
    out["kappa_micro"] = view.kappa_micro;
    out["version"] = view.version;
    out["epoch"] = view.epoch;
    json::object window;
    if (!view.windows.empty()) {
      const Window& newest = view.windows.back();
      window = {{"index", newest.index},         {"admitted", newest.admitted},
                {"waited", newest.waited_long},  {"held", newest.held_tokens},
                {"timeouts", newest.timeouts},   {"accepted", newest.accepted},
                {"overloads", newest.overloads}, {"released", newest.released_tokens}};
    }
    out["window"] = std::move(window);
    const std::optional<Instant> next = pool_.next_event();
    out["next_event_us"] = next ? json::value(relative(*next)) : json::value(nullptr);
    return out;
  }

  Instant start_;
  AnyPool pool_;
  json::object state_;
};

// One step is one paragraph: what is asked, then what comes back.
inline std::string pretty(const json::object& file, const std::vector<json::object>& steps) {
  std::ostringstream out;
  out << "{\n";
  for (const json::key_value_pair& field : file) {
    if (field.key() == "steps") continue;
    out << "  " << json::serialize(json::value(field.key())) << ": "
        << json::serialize(field.value()) << ",\n";
  }
  out << "  \"steps\": [\n";
  for (std::size_t i = 0; i < steps.size(); ++i) {
    json::object asked;
    std::ostringstream answers;
    for (const json::key_value_pair& field : steps[i]) {
      const std::string_view name(field.key());
      if (name == "reply" || name == "wake" || name == "after") {
        answers << ",\n     \"" << name << "\": " << json::serialize(field.value());
      } else {
        asked.emplace(field.key(), field.value());
      }
    }
    std::string line = json::serialize(asked);
    line.pop_back();
    out << "    " << line << answers.str() << "}" << (i + 1 < steps.size() ? ",\n" : "\n");
  }
  out << "  ]\n}\n";
  return out.str();
}

// The files, in order; `source_dir` is the root of the source tree.
inline std::vector<std::filesystem::path> files(const std::filesystem::path& source_dir) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir / "tests" / "vectors")) {
    if (entry.path().extension() == ".json") found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

inline json::object read_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream content;
  content << in.rdbuf();
  return json::parse(content.str()).as_object();
}

}  // namespace hg::gate::vectors
