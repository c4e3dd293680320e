// raw_provider.h: a provider that says the bytes it is told to, and an agent that hears every byte,
// for tests of what passes through the shim unchanged.
//
// Tests only; coroutines on the loop of the bench.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/chunk_codec.h"
#include "net/framing_guard.h"
#include "net/test_peer.h"
#include "proxy/shim_bench.h"

namespace hg::proxy {

namespace asio = boost::asio;

// A message as it stood on the wire, body unchunked.
struct Message {
  std::string head;
  std::string body;
};

// Answers every request with the same bytes, in pieces of `step`, and keeps what was asked.
class RawProvider {
 public:
  RawProvider(net::TestLoop& loop, net::TaskGroup& tasks)
      : acceptor_(loop.io, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
        tasks_(tasks) {
    tasks_.spawn("provider", accept(this));
  }

  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  void close() { acceptor_.close(); }

  std::string answer;
  std::size_t step = 1 << 20;
  bool closes = false;  // Each connection, after one answer.
  int connections = 0;
  std::vector<Message> asked;

 private:
  static net::Task<void> accept(RawProvider* self) {
    for (;;) {
      auto [ec, socket] = co_await self->acceptor_.async_accept(net::as_result);
      if (ec) co_return;
      ++self->connections;
      self->tasks_.spawn("connection", serve(self, std::move(socket)));
    }
  }

  static net::Task<void> serve(RawProvider* self, asio::ip::tcp::socket socket) {
    net::TestPeer peer(std::move(socket));
    peer.socket().set_option(asio::ip::tcp::no_delay(true));
    for (;;) {
      Message message;
      message.head = co_await peer.hear("\r\n\r\n");
      if (message.head.ends_with("[end]")) co_return;
      const auto guarded = net::guard_request(message.head);
      if (!guarded) co_return;
      std::size_t left = guarded->body.length;
      while (left > 0) {
        message.body += co_await peer.hear_count(left);
        if (message.body.ends_with("[end]")) co_return;
        left = guarded->body.length - message.body.size();
      }
      self->asked.push_back(std::move(message));
      const std::string bytes = self->answer;
      for (std::size_t at = 0; at < bytes.size(); at += self->step) {
        const bool sent = co_await peer.send(bytes.substr(at, self->step));
        if (!sent) co_return;
      }
      if (self->closes) co_return;
    }
  }

  asio::ip::tcp::acceptor acceptor_;
  net::TaskGroup& tasks_;
};

inline net::Task<std::string> ask(net::Executor executor, std::uint16_t port, std::string bytes) {
  net::TestPeer peer(executor);
  co_await peer.connect(port);
  const bool sent = co_await peer.send(std::move(bytes));
  if (!sent) co_return "[not sent]";
  co_return co_await peer.hear_all();
}

inline std::string unchunked(std::string_view bytes) {
  net::ChunkDecoder decoder;
  std::string out;
  for (;;) {
    const auto step = decoder.step(bytes);
    if (!step || (step->consumed == 0 && step->data.empty())) return out + "[broken chunks]";
    out += step->data;
    bytes.remove_prefix(step->consumed);
    if (step->ended) return out + std::string(bytes);
  }
}

// A bench whose provider is a raw one.
class RawBench : public ShimBench {
 protected:
  void start_raw() {
    raw_ = std::make_unique<RawProvider>(loop_, tasks_);
    Upstream upstream;
    upstream.name = "lab";
    upstream.url = *net::parse_url(fmt::format("http://127.0.0.1:{}{}", raw_->port(), base_path_));
    upstream.profile = "mistral";  // Which is not asked for usage: nothing is added.
    config_.upstreams = {upstream};
    start(100'000'000);
  }

  // What an agent hears that says `bytes` and then listens until the end.
  std::string say(std::string bytes) {
    return loop_.run(ask(loop_.executor(), shim_port_, std::move(bytes)));
  }

  void TearDown() override {
    if (raw_) raw_->close();
    ShimBench::TearDown();
  }

  std::string base_path_;
  std::unique_ptr<RawProvider> raw_;
};

}  // namespace hg::proxy
