// shim_bench.h: a shim between an agent and a scripted provider, over loopback sockets, for the
// tests of this folder.
//
// Tests only. Conditions are waited for, never times: `until` runs the loop until one holds. At the
// end nothing may be left: no lease, no waiter, no connection, no task.
#pragma once
#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/json.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/client.h"
#include "net/server.h"
#include "net/test_loop.h"
#include "proxy/call_log.h"
#include "proxy/shim.h"
#include "store/memory_store.h"
#include "wire/profiles.h"

namespace hg::proxy {

// What the provider does with one request.
struct Scripted {
  int status = 200;
  std::vector<Header> headers;
  std::vector<std::string> pieces;  // Of the body, each sent by itself.
  std::size_t repeats = 1;          // The pieces are said so many times, one after the other, ...
  std::string last;                 // ... and then this (no Content-Length counts it).
  bool event_stream = false;
  bool with_length = false;  // Content-Length instead of chunks.
  bool reset_before_head = false;
  std::optional<std::size_t> reset_before_piece;  // Sends the pieces before it, then resets.
  // Waits for this before the head, or before the piece of the number.
  std::shared_ptr<net::Event> before_head;
  std::map<std::size_t, std::shared_ptr<net::Event>> before_piece;
};

// Answers as scripted, first come first served; `otherwise` when the script is over.
class ScriptedProvider {
 public:
  struct Seen {
    net::RequestHead head;
    std::string body;
  };

  net::Task<void> handle(net::ServerExchange& exchange);

  std::deque<Scripted> script;
  Scripted otherwise;
  std::vector<Seen> seen;
  int under_way = 0;     // Handlers that have begun and not ended.
  int clients_gone = 0;  // Exchanges whose client went away before their end.
};

// One call's worth of each dialect.
[[nodiscard]] std::string anthropic_body(bool stream, std::string_view prompt = "Hello",
                                         std::string_view model = "claude-opus-4-1");
[[nodiscard]] std::string chat_body(bool stream, std::string_view prompt = "Hello");
// An event stream that says 100 uncached, 20 cached and 30 output tokens, in four pieces.
[[nodiscard]] Scripted anthropic_stream();
// 120 prompt tokens, 20 of them cached, and 30 output tokens.
[[nodiscard]] Scripted chat_answer();
[[nodiscard]] Scripted overload(int status);

inline constexpr std::string_view kKey = "sk-very-secret-key-0123456789";

class ShimBench : public testing::Test {
 protected:
  ShimBench();
  ~ShimBench() override;

  // Starts everything; tests change `config_` before. One pool "p" holds all calls, of `burst`
  // tokens, refilled by one token a second.
  void start(Tokens burst = 1'000'000);
  void TearDown() override;
  // The provider's server; 0: on a port that the kernel picks. start() does it.
  void open_provider(std::uint16_t port);

  [[nodiscard]] net::RequestHead request(std::string_view method, std::string_view target) const;
  [[nodiscard]] Result<net::FetchedResponse> fetch(const net::RequestHead& head,
                                                   std::string_view body);
  // POSTs a call of the dialect, with key and version fields.
  [[nodiscard]] Result<net::FetchedResponse> call_anthropic(std::string_view body,
                                                            std::string_view prefix = "");
  [[nodiscard]] Result<net::FetchedResponse> call_chat(std::string_view body,
                                                       std::string_view prefix = "");

  // Runs the loop until `condition` holds; fails the test after `patience_`.
  void until(const char* what, const std::function<bool()>& condition);

  [[nodiscard]] gate::PoolView view(std::string_view pool = "p");
  // Level of the pool's tokens below its capacity, in whole tokens (rounded: it refills slowly).
  [[nodiscard]] Tokens drawn(std::string_view pool = "p");
  [[nodiscard]] std::size_t leases(std::string_view pool = "p") { return view(pool).leases.size(); }
  [[nodiscard]] std::size_t waiters(std::string_view pool = "p") {
    return view(pool).waiters.size();
  }
  // The lines of the call log so far.
  [[nodiscard]] std::vector<boost::json::object> lines() const;
  [[nodiscard]] std::string log_text() const;

  Micros patience_{20s};
  net::TestLoop loop_;
  store::MemoryStore store_{loop_.executor(), loop_.clock};
  net::Client up_{loop_.executor(), loop_.clock, net::ClientConfig()};
  net::Client agent_{loop_.executor(), loop_.clock, net::ClientConfig()};
  net::TaskGroup tasks_{loop_.executor()};
  ScriptedProvider provider_;
  ShimConfig config_;
  std::string log_path_;
  CallLog log_;
  std::unique_ptr<net::Server> provider_server_;
  std::unique_ptr<Shim> shim_;
  std::unique_ptr<net::Server> shim_server_;
  net::Url shim_url_;
  std::uint16_t shim_port_ = 0;
  std::uint16_t provider_port_ = 0;
};

// An agent on a bare socket: writes what it likes, leaves when it likes.
class RawAgent {
 public:
  RawAgent(net::TestLoop& loop, std::uint16_t port);

  void write(std::string_view bytes);
  void reset();  // Leaves with a reset.
  void close();  // Leaves in good order.
  // Reads whatever is there without waiting.
  [[nodiscard]] std::string read_available();

 private:
  boost::asio::ip::tcp::socket socket_;
};

// A whole request as bytes.
[[nodiscard]] std::string raw_request(std::string_view target, std::string_view body);

}  // namespace hg::proxy
