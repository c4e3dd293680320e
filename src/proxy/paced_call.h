// paced_call.h: carries one generating request through call::Call over sockets: asks, waits, sends,
// looks at the answer's beginning, passes it on, settles, records.
//
// Decides nothing that call::Call decides. Whatever happens, its lease and its waiter go: by the
// steps of the state machine, and if its coroutine is destroyed instead, by its destructor. A
// client that goes away ends whatever is waited for: the queue is left, or the upstream connection
// closed, in the same turn of the event loop. Thread-safety: none. It lives in the handler's
// coroutine; exchange and parts outlive it.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "base/time.h"
#include "call/call.h"
#include "call/conversations.h"
#include "call/estimate.h"
#include "net/client.h"
#include "net/server.h"
#include "net/task.h"
#include "proxy/call_log.h"
#include "proxy/leg.h"
#include "proxy/rate_note.h"
#include "proxy/shim_config.h"
#include "proxy/upstream_watch.h"
#include "store/memory_store.h"
#include "wire/dialect.h"
#include "wire/profiles.h"
#include "wire/stream_usage.h"

namespace hg::proxy {

class PacedCall;

// What experience with one pool has taught this shim.
struct PoolMemory {
  call::Conversations conversations;
  std::map<std::string, call::OutputGuess, std::less<>> outputs;  // By harness.
  call::AnswerTime answer_times;
  // The latest that the provider said of its limits: one reading for each unit and window.
  std::vector<RateNote> rates;
};

// What all calls of a shim share.
struct CallParts {
  CallParts(const net::Executor& its_executor, const Clock& its_clock,
            store::MemoryStore& its_store, net::Client& its_client, CallLog& its_log)
      : executor(its_executor),
        clock(its_clock),
        store(its_store),
        client(its_client),
        log(its_log),
        tasks(its_executor) {}

  net::Executor executor;
  const Clock& clock;
  store::MemoryStore& store;
  net::Client& client;
  CallLog& log;
  net::TaskGroup tasks;
  std::set<PacedCall*> live;                                // Whose leases the heartbeat renews.
  std::map<std::string, PoolMemory, std::less<>> memories;  // By pool.
  std::size_t held = 0;                                     // Calls that wait for their turn.
  std::set<std::string> refuse_usage;  // Upstreams that answered 400 to stream_options.
  std::uint64_t body_bytes = 0;        // Of request bodies in memory.
  std::uint64_t unread_answers = 0;
  UpstreamWatch watch;
};

// All that is decided about a call before it asks.
struct CallSetup {
  Instant started;  // The request's first byte.
  Upstream upstream;
  const wire::ProviderProfile* provider = nullptr;
  const wire::HarnessProfile* harness = nullptr;
  wire::Dialect dialect = wire::Dialect::other;
  wire::RequestFacts facts;
  net::RequestHead head;  // As it goes upstream.
  std::string body;
  // Set where the body was changed to ask for usage: what makes it as it came again. The chunk that
  // answers the question is then ours, and does not go down.
  std::optional<wire::BodyEdit> undo_asking;
  std::string pool;
  std::uint64_t conversation = 0;
  Tokens shared_tokens = 0;  // Of the prompt, with an earlier one of the conversation.
  Tokens estimate = 0;
  call::Demand demand;
  call::Patience patience;
  Micros first_byte_within{600s};
  Micros silence{600s};
  CallEntry entry;  // What is known of it for the log.
};

class PacedCall {
 public:
  PacedCall(CallParts& parts, net::ServerExchange& exchange, CallSetup setup, Rng rng);
  ~PacedCall();
  PacedCall(const PacedCall&) = delete;
  PacedCall& operator=(const PacedCall&) = delete;

  // From the first ask to the line in the log. Once.
  [[nodiscard]] net::Task<void> run();

  [[nodiscard]] const std::string& pool() const { return setup_.pool; }
  // For the heartbeat: the lease held now, if any.
  [[nodiscard]] std::optional<gate::LeaseRenewal> lease() const { return call_.lease(); }

 private:
  void client_went();
  [[nodiscard]] Instant now() const { return parts_.clock.now(); }

  [[nodiscard]] net::Task<void> carry_out(const call::Step& step);
  [[nodiscard]] net::Task<void> ask(const call::Step& step);
  [[nodiscard]] net::Task<void> wait(const call::Step& step);
  void free_body();
  [[nodiscard]] net::Task<void> back_off(const call::Step& step);
  [[nodiscard]] net::Task<void> send();
  [[nodiscard]] bool refuses_to_be_asked();
  void note_rates();
  [[nodiscard]] net::Task<void> relay();
  [[nodiscard]] net::Task<void> refuse(const call::Step& step);
  [[nodiscard]] net::Task<void> give_up_waiting(const call::Step& step);
  [[nodiscard]] net::Task<void> give_back(const call::Step& step);
  [[nodiscard]] net::Task<void> settle(const call::Step& step);
  [[nodiscard]] net::Task<void> pause_pool(const call::Step& step);

  void no_answer(const Error& error);
  [[nodiscard]] call::NoAnswer how_unanswered(const Error& error) const;
  [[nodiscard]] net::Task<call::Answer> look_at_answer();
  [[nodiscard]] call::End end_of(const Passed& passed) const;
  void learn_answer_time(Micros took);
  void learn();
  void write_entry();

  CallParts& parts_;
  net::ServerExchange& exchange_;
  CallSetup setup_;
  call::Call call_;
  net::Event backed_off_;   // Ends the sleep after an overload when the client goes.
  std::optional<Leg> leg_;  // While there is a connection to the provider.
  std::string waiting_id_;  // While in the store's wait.
  bool gone_ = false;       // The client.
  bool finished_ = false;   // Nothing is held any more.
  std::string failure_;     // How the upstream failed.
};

}  // namespace hg::proxy
