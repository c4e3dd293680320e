// The provider of the proxy benchmark: one thread, epoll, answers ready-made.
//
// Says its port on the first line of its output and serves until it is killed. The last word of a
// request's query says how it answers:
//   json    a message of the Messages API, with Content-Length
//   sse     the same as an event stream, all events in one write, chunked
//   paced   the stream at 50 events a second for 5 seconds; each event holds the moment at which
//           it was written
//   hang    never
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <map>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "bench/http/sockets.h"

namespace hg::bench {
namespace {

constexpr std::int64_t kEventEveryUs = 20'000;
constexpr int kPacedEvents = 250;
constexpr int kWholeEvents = 30;

std::string chunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

std::string event(std::string_view name, std::string_view data) {
  return chunk(fmt::format("event: {}\ndata: {}\n\n", name, data));
}

std::string json_answer() {
  const std::string text(400, 'a');
  const std::string body = fmt::format(
      R"({{"id":"msg_bench","type":"message","role":"assistant","model":"claude-sonnet-4-5",)"
      R"("content":[{{"type":"text","text":"{}"}}],"stop_reason":"end_turn","stop_sequence":null,)"
      R"("usage":{{"input_tokens":506,"cache_creation_input_tokens":0,)"
      R"("cache_read_input_tokens":0,"output_tokens":101,"service_tier":"standard"}}}})",
      text);
  return fmt::format(
      "HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\nrequest-id: req_bench\r\n"
      "anthropic-ratelimit-input-tokens-limit: 400000\r\n"
      "anthropic-ratelimit-input-tokens-remaining: 400000\r\n"
      "Server: bench\r\n\r\n{}",
      body.size(), body);
}

std::string stream_begin() {
  return "HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\n"
         "Content-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
         "Transfer-Encoding: chunked\r\nrequest-id: req_bench\r\nServer: bench\r\n\r\n" +
         event("message_start",
               R"({"type":"message_start","message":{"id":"msg_bench","type":"message",)"
               R"("role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,)"
               R"("usage":{"input_tokens":506,"cache_creation_input_tokens":0,)"
               R"("cache_read_input_tokens":0,"output_tokens":5}}})") +
         event("content_block_start", R"({"type":"content_block_start","index":0,)"
                                      R"("content_block":{"type":"text","text":""}})");
}

std::string stream_piece(std::int64_t at_us) {
  return event("content_block_delta",
               fmt::format(R"({{"type":"content_block_delta","index":0,"delta":)"
                           R"({{"type":"text_delta","text":" help you with that"}},"at":{}}})",
                           at_us));
}

std::string stream_end() {
  return event("content_block_stop", R"({"type":"content_block_stop","index":0})") +
         event("message_delta", R"({"type":"message_delta","delta":{"stop_reason":"end_turn",)"
                                R"("stop_sequence":null},"usage":{"output_tokens":153}})") +
         event("message_stop", R"({"type":"message_stop"})") + "0\r\n\r\n";
}

std::string whole_stream() {
  std::string text = stream_begin();
  for (int i = 0; i < kWholeEvents; ++i) text += stream_piece(0);
  return text + stream_end();
}

struct Client {
  std::string in;  // Of a head that is not whole yet.
  std::int64_t body_left = 0;
  std::string answer;  // What the request asked for: "json", ...
  int events_left = 0;
  std::uint64_t generation = 0;  // Of the descriptor: a number may come back.
};

struct Due {
  std::int64_t at_us = 0;
  int fd = -1;
  std::uint64_t generation = 0;

  friend bool operator>(const Due& left, const Due& right) { return left.at_us > right.at_us; }
};

class Upstream {
 public:
  Upstream() : epoll_(::epoll_create1(0)), listener_(listen_anywhere()) {
    if (epoll_ < 0) die("epoll_create1");
    watch(epoll_, listener_.fd);
  }

  [[nodiscard]] std::uint16_t port() const { return listener_.port; }

  [[noreturn]] void serve() {
    std::array<epoll_event, 256> events{};
    for (;;) {
      const int count = ::epoll_wait(epoll_, events.data(), events.size(), wait_ms());
      if (count < 0 && errno != EINTR) die("epoll_wait");
      for (int i = 0; i < count; ++i) {
        if (events[std::size_t(i)].data.fd == listener_.fd) {
          accept_all();
        } else {
          read(events[std::size_t(i)].data.fd);
        }
      }
      send_due();
    }
  }

 private:
  [[nodiscard]] int wait_ms() const {
    if (due_.empty()) return -1;
    const std::int64_t left_us = due_.top().at_us - now_us();
    return left_us <= 0 ? 0 : static_cast<int>((left_us + 999) / 1000);
  }

  void accept_all() {
    for (;;) {
      const int fd = ::accept4(listener_.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) return;
      set_no_delay(fd);
      watch(epoll_, fd);
      clients_[fd].generation = ++generation_;
    }
  }

  void drop(int fd) {
    clients_.erase(fd);
    ::close(fd);
  }

  void read(int fd) {
    const auto found = clients_.find(fd);
    if (found == clients_.end()) return;
    const ::ssize_t count = ::recv(fd, buffer_.data(), buffer_.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return drop(fd);
    take(fd, found->second, std::string_view(buffer_.data(), std::size_t(count)));
  }

  void take(int fd, Client& client, std::string_view bytes) {
    if (client.body_left == 0) {
      client.in += bytes;
      const auto head_size = head_length(client.in);
      if (!head_size) return;
      const std::string_view head = std::string_view(client.in).substr(0, *head_size);
      const std::string_view target = head.substr(0, head.find(" HTTP/"));
      client.answer = target.substr(target.find_last_of("=?/") + 1);
      client.body_left = number(field(head, "content-length"));
      client.body_left -= std::int64_t(client.in.size() - *head_size);
      client.in.clear();
    } else {
      client.body_left -= std::int64_t(bytes.size());
    }
    if (client.body_left <= 0) answer(fd, client);
  }

  void answer(int fd, Client& client) {
    client.body_left = 0;
    if (client.answer == "hang") return;
    if (client.answer == "sse") return send(fd, sse_);
    if (client.answer != "paced") return send(fd, json_);
    send(fd, begin_);
    client.events_left = kPacedEvents;
    // Streams of a real fleet are not in step.
    phase_us_ = (phase_us_ + 7'919) % kEventEveryUs;
    due_.push({now_us() + phase_us_, fd, client.generation});
  }

  void send_due() {
    while (!due_.empty() && due_.top().at_us <= now_us()) {
      Due due = due_.top();
      due_.pop();
      const auto found = clients_.find(due.fd);
      if (found == clients_.end() || found->second.generation != due.generation) continue;
      if (--found->second.events_left < 0) {
        send(due.fd, end_);
        continue;
      }
      send(due.fd, stream_piece(now_us()));
      due.at_us += kEventEveryUs;
      due_.push(due);
    }
  }

  // Answers are small beside a socket's buffer; one that does not fit means that nobody reads.
  void send(int fd, std::string_view bytes) {
    const ::ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count != ::ssize_t(bytes.size())) drop(fd);
  }

  int epoll_;
  Listener listener_;
  std::map<int, Client> clients_;  // By descriptor.
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::uint64_t generation_ = 0;
  std::int64_t phase_us_ = 0;
  std::vector<char> buffer_ = std::vector<char>(std::size_t{256} * 1024);
  const std::string json_ = json_answer();
  const std::string sse_ = whole_stream();
  const std::string begin_ = stream_begin();
  const std::string end_ = stream_end();
};

}  // namespace
}  // namespace hg::bench

int main() {
  hg::bench::raise_descriptor_limit();
  hg::bench::Upstream upstream;
  std::printf("%d\n", int(upstream.port()));
  std::fflush(stdout);
  upstream.serve();
}
