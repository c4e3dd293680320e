#include "tests/valkey/duel.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace hg::valkey {
namespace {

constexpr std::size_t kInFlight = 256;      // Commands sent ahead of their answers.
constexpr std::size_t kLookAtEachMax = 60;  // Longer histories are looked at when they end.

// Only the lines in which two texts differ: a view has thousands.
std::string lines_apart(const std::string& memory, const std::string& store) {
  std::string out;
  std::size_t left = 0;
  std::size_t right = 0;
  int shown = 0;
  while ((left < memory.size() || right < store.size()) && shown < 5) {
    const std::size_t left_end = std::min(memory.find('\n', left), memory.size());
    const std::size_t right_end = std::min(store.find('\n', right), store.size());
    const std::string ours = memory.substr(std::min(left, memory.size()), left_end - left);
    const std::string theirs = store.substr(std::min(right, store.size()), right_end - right);
    if (ours != theirs) {
      out += fmt::format("\n  in memory: {}\n  in Valkey: {}", ours, theirs);
      ++shown;
    }
    left = left_end + 1;
    right = right_end + 1;
  }
  return out;
}

}  // namespace

Duel::Duel(Connection& connection, const std::string& name, const History& beginning)
    : connection_(&connection),
      keys_(name),
      pool_(beginning.config, beginning.birth, beginning.start) {
  const bool full = beginning.birth == gate::Birth::created_full;
  gate::script::Call call = full ? gate::script::create(beginning.config)
                                 : gate::script::restore(1, beginning.config);
  set_now(call, beginning.start);
  send(std::move(call), {0, Operation::Kind::step, "done"});
}

Duel::~Duel() {
  while (!expected_.empty()) compare();
  std::vector<std::string> words = {"UNLINK"};
  words.insert(words.end(), keys_.all().begin(), keys_.all().end());
  (void)connection_->command(words);
}

void Duel::send(gate::script::Call call, Expected expected) {
  connection_->send(keys_, call);
  expected_.push_back(std::move(expected));
  if (expected_.size() >= kInFlight) {
    while (expected_.size() > kInFlight / 2) compare();
  }
}

void Duel::compare() {
  const Value value = connection_->receive();
  const Expected expected = std::move(expected_.front());
  expected_.pop_front();
  if (difference_) return;
  std::string said;
  if (expected.kind) {
    said = answer_of(value, *expected.kind);
  } else {
    const Result<gate::PoolView> view = gate::script::read_view(value);
    said = view ? text_of(*view) : view.error().detail;
  }
  if (said == expected.text) return;
  difference_ = Difference{
      expected.operations,
      fmt::format("after {} operations:{}", expected.operations, lines_apart(expected.text, said))};
}

Told Duel::play(const Operation& operation) {
  ++played_;
  Told told = tell(pool_, operation);
  send(call_of(operation), {played_, operation.kind, told.text});
  return told;
}

void Duel::look(Instant now) {
  gate::script::Call call = gate::script::view();
  set_now(call, now);
  send(std::move(call), {played_, std::nullopt, text_of(pool_.view(now))});
}

void Duel::finish() {
  while (!expected_.empty()) compare();
}

std::optional<Duel::Difference> differs(Connection& connection, const History& history,
                                        Looking looking) {
  Duel duel(connection, "shrinking", history);
  for (const Operation& operation : history.operations) {
    duel.play(operation);
    if (looking == Looking::each) duel.look(operation.now);
  }
  if (!history.operations.empty()) duel.look(history.operations.back().now);
  duel.finish();
  return duel.difference();
}

// Delta debugging: leave out ever smaller parts, from the end on, as long as the rest differs
// still.
History shrink(Connection& connection, History history) {
  std::vector<Operation>& kept = history.operations;
  const auto still = [&connection](const History& less) {
    const bool few = less.operations.size() <= kLookAtEachMax;
    return differs(connection, less, few ? Looking::each : Looking::end);
  };
  for (std::size_t part = std::max<std::size_t>(kept.size() / 2, 1); part > 0;) {
    bool shorter = false;
    for (std::size_t end = kept.size(); end > 0;) {
      const std::size_t begin = end > part ? end - part : 0;
      History less = history;
      less.operations.erase(less.operations.begin() + static_cast<std::ptrdiff_t>(begin),
                            less.operations.begin() + static_cast<std::ptrdiff_t>(end));
      if (const auto difference = still(less)) {
        less.operations.resize(std::min(less.operations.size(), difference->operations));
        kept = std::move(less.operations);
        shorter = true;
      }
      end = std::min(begin, kept.size());
    }
    if (part == 1 && !shorter) break;
    if (!shorter || part > kept.size()) part = std::max<std::size_t>(part / 2, 1);
  }
  return history;
}

}  // namespace hg::valkey
