// What the server and the client cost: one request and its answer over loopback, straight to an
// echo server, and through a relay that does what the shim does with bytes.
//
// Client, relay and server share one thread, as the shim and a local upstream would not: a round
// trip here pays for all of them.
#include <benchmark/benchmark.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "net/client.h"
#include "net/server.h"

namespace hg::net {
namespace {

constexpr std::size_t kBodyMax = std::size_t{64} * 1024 * 1024;

Task<void> echo(ServerExchange& exchange) {
  const auto body = co_await exchange.read_body(kBodyMax);
  if (!body) co_return;
  ResponseHead head(200);
  co_await exchange.reply(std::move(head), *body);
}

// An upstream, a relay in front of it, and a client.
struct Chain {
  asio::io_context io{1};
  OsClock clock;
  Client outbound{io.get_executor(), clock, ClientConfig()};
  Client client{io.get_executor(), clock, ClientConfig()};
  Server upstream{io.get_executor(), ServerConfig(), echo};
  Url upstream_url;
  Server relay{io.get_executor(), ServerConfig(),
               [this](ServerExchange& exchange) { return pass_on(exchange); }};
  Url relay_url;

  Chain() {
    upstream_url = *parse_url("http://127.0.0.1:" + std::to_string(*upstream.listen_loopback(0)));
    relay_url = *parse_url("http://127.0.0.1:" + std::to_string(*relay.listen_loopback(0)));
  }

  ~Chain() {
    client.close_idle();
    outbound.close_idle();
    run(stop());
  }

  Task<void> stop() {
    co_await relay.stop(1s);
    co_await upstream.stop(1s);
  }

  Task<void> pass_on(ServerExchange& exchange) {
    const auto body = co_await exchange.read_body(kBodyMax);
    if (!body) co_return;
    ClientExchange out = outbound.start(upstream_url);
    auto on_gone = [&out] { out.close(); };
    exchange.on_gone(on_gone);
    const auto sent = co_await out.send(exchange.head(), *body);
    if (!sent) co_return;
    auto answer = co_await out.read_head(5s);
    if (!answer) co_return;
    co_await exchange.send_head(std::move(*answer), out.body_framing());
    std::array<char, kChunkBytes> chunk;
    for (;;) {
      const auto count = co_await out.read_some(chunk, 5s);
      if (!count) co_return;
      if (*count == 0) break;
      co_await exchange.send_some(std::string_view(chunk.data(), *count));
    }
    co_await exchange.finish();
    exchange.on_gone(nullptr);
  }

  // The bytes that came back.
  Task<void> ask(const Url& url, const RequestHead& head, std::string_view body,
                 std::size_t& bytes) {
    const auto response = co_await client.fetch(url, head, body, 5s, kBodyMax);
    bytes = response ? response->body.size() : 0;
  }

  void run(Task<void> task) {
    bool ended = false;
    asio::co_spawn(io, std::move(task), [&](const std::exception_ptr&) { ended = true; });
    while (!ended && io.run_one() > 0) {
    }
  }
};

void ask_often(benchmark::State& state, Url Chain::* target) {
  Chain chain;
  const std::string body(static_cast<std::size_t>(state.range(0)), 'x');
  const RequestHead head("POST", "/v1/messages");
  for (auto _ : state) {
    std::size_t bytes = 0;
    chain.run(chain.ask(chain.*target, head, body, bytes));
    if (bytes != body.size()) state.SkipWithError("an answer is not what was sent");
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void net_direct(benchmark::State& state) { ask_often(state, &Chain::upstream_url); }
void net_relayed(benchmark::State& state) { ask_often(state, &Chain::relay_url); }

BENCHMARK(net_direct)->Arg(200)->Arg(20'000)->Arg(1'000'000);
BENCHMARK(net_relayed)->Arg(200)->Arg(20'000)->Arg(1'000'000);

}  // namespace
}  // namespace hg::net
