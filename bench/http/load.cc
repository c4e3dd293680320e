// The agents of the proxy benchmark, on kept connections, and what they see. Prints one JSON
// object.
//
//   load closed PORT CONNECTIONS REQUESTS BODY_BYTES ANSWER   each connection asks again as soon as
//                                                             it is answered; one round to warm up
//   load serial ROUNDS BODY_BYTES ANSWER PORT...              one request at a time, to each port
//   in
//                                                             turn: the median of each
//   load streams PORT STREAMS                                 all at once, at 50 events/s: how late
//   load held PORT CALLS BODY_BYTES                           asks, says so, and waits for the end
//                                                             of its input
// ANSWER is how upstream.cc answers: json, sse, paced, hang.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "bench/http/sockets.h"

namespace hg::bench {
namespace {

// A conversation of its own for each connection, of messages that look like code.
std::string body_of(std::int64_t bytes, int connection, std::string_view answer) {
  const bool stream = answer != "json";
  std::string body = fmt::format(
      R"({{"model":"claude-sonnet-4-5","max_tokens":1024,"stream":{},"messages":[)"
      R"({{"role":"user","content":"task {}"}})",
      stream, connection);
  const std::string_view line = R"(  if (left == right) return \"caf\u00e9\";  // Compare\n)";
  std::string role = "assistant";
  while (std::int64_t(body.size()) + 80 < bytes) {
    body += fmt::format(R"(,{{"role":"{}","content":[{{"type":"text","text":")", role);
    for (std::int64_t i = 0; i < 2'000 && std::int64_t(body.size()) + 80 < bytes;
         i += std::int64_t(line.size())) {
      body += line;
    }
    body += R"("}]})";
    role = role == "user" ? "assistant" : "user";
  }
  return body + R"(,{"role":"user","content":"go on"}]})";
}

// As a real agent program writes it.
std::string request_of(std::int64_t bytes, int connection, std::string_view answer) {
  const std::string body = body_of(bytes, connection, answer);
  return fmt::format(
      "POST /v1/messages?beta=true&answer={} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
      "Accept: application/json\r\nContent-Type: application/json\r\n"
      "User-Agent: claude-cli/2.1.332 (external, sdk-cli)\r\nX-Stainless-Arch: x64\r\n"
      "X-Stainless-Lang: js\r\nX-Stainless-OS: Linux\r\nX-Stainless-Package-Version: 0.94.0\r\n"
      "X-Stainless-Retry-Count: 0\r\nX-Stainless-Runtime: node\r\n"
      "X-Stainless-Runtime-Version: v24.3.0\r\nX-Stainless-Timeout: 600\r\n"
      "anthropic-beta: interleaved-thinking-2025-05-14\r\n"
      "anthropic-dangerous-direct-browser-access: true\r\nanthropic-version: 2023-06-01\r\n"
      "x-api-key: sk-bench\r\nx-app: cli\r\nConnection: keep-alive\r\n"
      "Accept-Encoding: gzip, deflate, br, zstd\r\nContent-Length: {}\r\n\r\n{}",
      answer, body.size(), body);
}

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ::ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) die("send");
    bytes.remove_prefix(std::size_t(count));
  }
}

// One connection's answer as far as it came. Sockets block: only those with input are read.
class Agent {
 public:
  Agent(std::uint16_t port, std::string request)
      : fd_(connect_to(port)), request_(std::move(request)) {}

  [[nodiscard]] int fd() const { return fd_; }
  void ask() { send_all(fd_, request_); }

  // Reads once. True when the answer is whole.
  bool read() {
    std::array<char, std::size_t{64} * 1024> chunk;
    const ::ssize_t count = ::recv(fd_, chunk.data(), chunk.size(), 0);
    if (count <= 0) die("an answer broke off");
    came_.assign(chunk.data(), std::size_t(count));
    if (!in_body_) {
      text_ += came_;
      const auto head_size = head_length(text_);
      if (!head_size) return false;
      begin_body(*head_size);
    } else {
      left_ -= count;
      tail_ += came_;
    }
    if (tail_.size() > 5) tail_.erase(0, tail_.size() - 5);
    const bool whole = chunked_ ? tail_ == "0\r\n\r\n" : left_ <= 0;
    if (whole) in_body_ = false;
    return whole;
  }

  // What the last read brought.
  [[nodiscard]] const std::string& came() const { return came_; }

 private:
  void begin_body(std::size_t head_size) {
    const std::string_view head = std::string_view(text_).substr(0, head_size);
    if (!head.starts_with("HTTP/1.1 200")) {
      std::fprintf(stderr, "bench: not the answer that was asked for:\n%s\n", text_.c_str());
      std::exit(1);
    }
    chunked_ = field(head, "transfer-encoding") == "chunked";
    left_ = number(field(head, "content-length")) - std::int64_t(text_.size() - head_size);
    tail_ = text_.substr(head_size);
    in_body_ = true;
    text_.clear();
  }

  int fd_;
  std::string request_;
  std::string text_;  // Of a head that is not whole.
  std::string tail_;  // The last bytes of a chunked body.
  std::string came_;
  bool in_body_ = false;
  bool chunked_ = false;
  std::int64_t left_ = 0;
};

double percentile(std::vector<std::int64_t>& values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(share * double(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(at), values.end());
  return double(values[at]);
}

int closed(std::uint16_t port, int connections, int requests, std::int64_t bytes,
           std::string_view answer) {
  const int epoll = ::epoll_create1(0);
  std::deque<Agent> agents;
  std::vector<Agent*> by_fd;
  std::vector<std::int64_t> asked_at;
  std::vector<std::int64_t> latencies;
  for (int i = 0; i < connections; ++i) {
    Agent& agent = agents.emplace_back(port, request_of(bytes, i, answer));
    const auto fd = std::size_t(agent.fd());
    by_fd.resize(std::max(by_fd.size(), fd + 1));
    by_fd[fd] = &agent;
    agent.ask();
    while (!agent.read()) {
    }
    watch(epoll, agent.fd());
  }
  asked_at.resize(by_fd.size());
  std::printf("ready\n");  // Whoever counts processor time begins here,
  std::fflush(stdout);
  if (std::getchar() == EOF) return 1;
  const std::int64_t begin = now_us();
  int asked = 0;
  for (Agent& agent : agents) {
    asked_at[std::size_t(agent.fd())] = now_us();
    agent.ask();
    ++asked;
  }
  std::array<epoll_event, 256> events{};
  while (int(latencies.size()) < requests) {
    const int count = ::epoll_wait(epoll, events.data(), events.size(), 30'000);
    if (count <= 0) die("no answer for 30 s");
    for (int i = 0; i < count; ++i) {
      const auto fd = std::size_t(events[std::size_t(i)].data.fd);
      if (!by_fd[fd]->read()) continue;
      latencies.push_back(now_us() - asked_at[fd]);
      if (asked++ >= requests) continue;
      asked_at[fd] = now_us();
      by_fd[fd]->ask();
    }
  }
  const double seconds = double(now_us() - begin) / 1e6;
  std::printf("%s\n",
              fmt::format(R"({{"requests":{},"seconds":{},"p50_us":{},"p99_us":{}}})", requests,
                          seconds, percentile(latencies, 0.5), percentile(latencies, 0.99))
                  .c_str());  // and ends here.
  return 0;
}

int serial(int rounds, std::int64_t bytes, std::string_view answer,
           const std::vector<std::uint16_t>& ports) {
  constexpr int kWarmUp = 50;
  std::deque<Agent> agents;
  std::vector<std::vector<std::int64_t>> latencies(ports.size());
  for (const std::uint16_t port : ports) agents.emplace_back(port, request_of(bytes, 0, answer));
  for (int round = -kWarmUp; round < rounds; ++round) {
    for (std::size_t i = 0; i < ports.size(); ++i) {
      const std::int64_t begin = now_us();
      agents[i].ask();
      while (!agents[i].read()) {
      }
      if (round >= 0) latencies[i].push_back(now_us() - begin);
    }
  }
  std::string text;
  for (auto& values : latencies) {
    if (!text.empty()) text += ",";
    text += fmt::format(R"({{"p25_us":{},"p50_us":{}}})", percentile(values, 0.25),
                        percentile(values, 0.5));
  }
  std::printf("[%s]\n", text.c_str());
  return 0;
}

// The moments at which the events that just came were written: "at":1234.
void note_lateness(std::string_view text, std::int64_t now, std::vector<std::int64_t>& late) {
  constexpr std::string_view kMark = R"("at":)";
  for (std::size_t at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark, at)) {
    at += kMark.size();
    const bool whole = text.find('}', at) != std::string_view::npos;
    if (whole) late.push_back(now - number(text.substr(at)));
  }
}

int streams(std::uint16_t port, int count_of_streams) {
  const int epoll = ::epoll_create1(0);
  std::deque<Agent> agents;
  std::vector<Agent*> by_fd;
  std::vector<std::int64_t> late;
  for (int i = 0; i < count_of_streams; ++i) {
    Agent& agent = agents.emplace_back(port, request_of(2048, i, "paced"));
    const auto fd = std::size_t(agent.fd());
    by_fd.resize(std::max(by_fd.size(), fd + 1));
    by_fd[fd] = &agent;
    watch(epoll, agent.fd());
    agent.ask();
  }
  std::array<epoll_event, 256> events{};
  int ended = 0;
  while (ended < count_of_streams) {
    const int count = ::epoll_wait(epoll, events.data(), events.size(), 30'000);
    if (count <= 0) die("no event for 30 s");
    for (int i = 0; i < count; ++i) {
      Agent& agent = *by_fd[std::size_t(events[std::size_t(i)].data.fd)];
      if (agent.read()) ++ended;
      note_lateness(agent.came(), now_us(), late);
    }
  }
  std::printf("%s\n",
              fmt::format(R"({{"events":{},"p50_us":{},"p99_us":{},"max_us":{}}})", late.size(),
                          percentile(late, 0.5), percentile(late, 0.99), percentile(late, 1.0))
                  .c_str());
  return 0;
}

int held(std::uint16_t port, int calls, std::int64_t bytes) {
  std::deque<Agent> agents;
  std::size_t body_bytes = 0;
  for (int i = 0; i < calls; ++i) {
    body_bytes = body_of(bytes, i, "hang").size();
    agents.emplace_back(port, request_of(bytes, i, "hang")).ask();
  }
  std::printf("%s\n", fmt::format(R"({{"body_bytes":{}}})", body_bytes).c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

int usage() {
  std::fprintf(stderr, "usage: see the head of bench/http/load.cc\n");
  return 2;
}

int run(const std::vector<std::string_view>& words) {
  const auto at = [&](std::size_t index) { return number(words[index]); };
  const auto port = [&](std::size_t index) { return static_cast<std::uint16_t>(at(index)); };
  if (words.size() == 6 && words[0] == "closed") {
    return closed(port(1), int(at(2)), int(at(3)), at(4), words[5]);
  }
  if (words.size() >= 5 && words[0] == "serial") {
    std::vector<std::uint16_t> ports;
    for (std::size_t i = 4; i < words.size(); ++i) ports.push_back(port(i));
    return serial(int(at(1)), at(2), words[3], ports);
  }
  if (words.size() == 3 && words[0] == "streams") return streams(port(1), int(at(2)));
  if (words.size() == 4 && words[0] == "held") return held(port(1), int(at(2)), at(3));
  return usage();
}

}  // namespace
}  // namespace hg::bench

int main(int count, char** words) {
  hg::bench::raise_descriptor_limit();
  return hg::bench::run(std::vector<std::string_view>(words + 1, words + count));
}
