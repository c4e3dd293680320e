// duel.h: one history on both implementations, compared; and what differs, made small.
#pragma once
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "gate/pool.h"
#include "gate/script.h"
#include "tests/valkey/connection.h"
#include "tests/valkey/history.h"

namespace hg::valkey {

// A pool in memory and the same in a store. Operations are sent without waiting for the answers,
// which are compared as they come. Ends (and takes its keys away) with the object.
class Duel {
 public:
  // `name`: of a pool that the store does not have yet. The connection outlives the duel.
  Duel(Connection& connection, const std::string& name, const History& beginning);
  ~Duel();
  Duel(const Duel&) = delete;
  Duel& operator=(const Duel&) = delete;

  [[nodiscard]] gate::Pool& pool() { return pool_; }
  Told play(const Operation& operation);
  // Compares the whole views; changes nothing.
  void look(Instant now);
  // Reads all answers that are due.
  void finish();

  // The first difference: how many operations had been played, and both answers.
  struct Difference {
    std::size_t operations = 0;
    std::string text;
  };
  [[nodiscard]] const std::optional<Difference>& difference() const { return difference_; }

 private:
  struct Expected {
    std::size_t operations;
    std::optional<Operation::Kind> kind;  // None: a view.
    std::string text;
  };
  void send(gate::script::Call call, Expected expected);
  void compare();

  Connection* connection_;
  gate::script::PoolKeys keys_;
  gate::Pool pool_;
  std::size_t played_ = 0;
  std::deque<Expected> expected_;
  std::optional<Difference> difference_;
};

// Plays a whole history, looking after each operation or at the end.
enum class Looking : std::uint8_t { each, end };
[[nodiscard]] std::optional<Duel::Difference> differs(Connection& connection,
                                                      const History& history, Looking looking);

// A part of a history that differs, of which nothing can be left out any more.
[[nodiscard]] History shrink(Connection& connection, History history);

}  // namespace hg::valkey
