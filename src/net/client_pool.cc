#include "net/client_pool.h"

#include <algorithm>
#include <utility>

namespace hg::net {

namespace {

constexpr std::size_t kWatchBytes = 512;  // Nothing is expected: an end, or a breach of protocol.
constexpr Micros kSweepEvery = 5s;

}  // namespace

ClientPool::ClientPool(const Executor& executor, const Clock& clock, Micros idle, Micros age,
                       std::size_t idle_max)
    : clock_(clock), idle_(idle), age_(age), idle_max_(idle_max), timer_(executor) {}

bool ClientPool::is_fresh(const Entry& entry) const {
  const Instant now = clock_.now();
  return now - entry.born < age_ && now - entry.idle_since < idle_;
}

std::optional<ClientPool::Entry> ClientPool::take(const std::string& origin) {
  const auto found = idle_by_origin_.find(origin);
  if (found == idle_by_origin_.end()) return std::nullopt;
  std::list<Entry>& entries = found->second;
  std::optional<Entry> taken;
  while (!entries.empty() && !taken) {
    Entry entry = std::move(entries.back());
    entries.pop_back();
    entry.connection->on_input(nullptr);
    if (is_fresh(entry) && !entry.connection->is_stale()) {
      taken = std::move(entry);
    } else {
      entry.connection->close();
    }
  }
  forget_if_empty(found);
  return taken;
}

void ClientPool::put(const std::string& origin, std::shared_ptr<Connection> connection,
                     Instant born) {
  std::list<Entry>& entries = idle_by_origin_[origin];
  Entry entry;
  entry.connection = std::move(connection);
  entry.born = born;
  entry.idle_since = clock_.now();
  if (!is_fresh(entry) || entries.size() >= idle_max_) {
    entry.connection->close();
    if (entries.empty()) idle_by_origin_.erase(origin);
    return;
  }
  entry.connection->on_input([pool = weak_from_this(), origin, raw = entry.connection.get()] {
    if (const std::shared_ptr<ClientPool> self = pool.lock()) self->drop(origin, raw);
  });
  entry.connection->trim_memory();
  entry.connection->start_read(kWatchBytes);
  entries.push_back(std::move(entry));
  sweep_later();
}

void ClientPool::drop(const std::string& origin, const Connection* connection) {
  const auto found = idle_by_origin_.find(origin);
  if (found == idle_by_origin_.end()) return;
  std::list<Entry>& entries = found->second;
  const auto entry = std::ranges::find_if(
      entries, [&](const Entry& each) { return each.connection.get() == connection; });
  if (entry == entries.end()) return;
  entry->connection->on_input(nullptr);
  entry->connection->close();
  entries.erase(entry);
  forget_if_empty(found);
}

void ClientPool::forget_if_empty(Origins::iterator origin) {
  if (!origin->second.empty()) return;
  idle_by_origin_.erase(origin);
  if (idle_by_origin_.empty()) timer_.cancel();
}

void ClientPool::sweep_later() {
  if (std::exchange(sweeping_, true)) return;
  timer_.expires_after(std::min(idle_, kSweepEvery));
  timer_.async_wait([pool = weak_from_this()](const boost::system::error_code& ec) {
    const std::shared_ptr<ClientPool> self = pool.lock();
    if (!self) return;
    self->sweeping_ = false;
    if (!ec) self->sweep();
    // Cancelled because the pool was empty; it may have been filled since.
    if (!self->idle_by_origin_.empty()) self->sweep_later();
  });
}

void ClientPool::sweep() {
  for (auto each = idle_by_origin_.begin(); each != idle_by_origin_.end();) {
    std::list<Entry>& entries = each->second;
    for (auto entry = entries.begin(); entry != entries.end();) {
      if (is_fresh(*entry)) {
        ++entry;
        continue;
      }
      entry->connection->on_input(nullptr);
      entry->connection->close();
      entry = entries.erase(entry);
    }
    each = entries.empty() ? idle_by_origin_.erase(each) : std::next(each);
  }
}

void ClientPool::close_all() {
  for (auto& [origin, entries] : idle_by_origin_) {
    for (Entry& entry : entries) {
      entry.connection->on_input(nullptr);
      entry.connection->close();
    }
  }
  idle_by_origin_.clear();
  timer_.cancel();
}

std::size_t ClientPool::size() const {
  std::size_t count = 0;
  for (const auto& [origin, entries] : idle_by_origin_) count += entries.size();
  return count;
}

}  // namespace hg::net
