// sockets.h: what the two programs of the proxy benchmark share: loopback sockets and heads.
//
// Deliberately plain (epoll, blocking connects, one thread) and without any code of src/net: what
// measures must not be what is measured. A failure ends the program with a message.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hg::bench {

[[noreturn]] void die(std::string_view what);  // With errno's text.

// Connected to 127.0.0.1:port, without Nagle's delay; blocking.
[[nodiscard]] int connect_to(std::uint16_t port);
// Listens on 127.0.0.1 on a port of the kernel's choice; non-blocking.
struct Listener {
  int fd = -1;
  std::uint16_t port = 0;
};
[[nodiscard]] Listener listen_anywhere();

void set_nonblocking(int fd);
void set_no_delay(int fd);
// Watches a descriptor for input; what epoll_wait answers is `fd`.
void watch(int epoll, int fd);
// As many descriptors as the system gives.
void raise_descriptor_limit();

// The length of the head at the beginning of `text`, with its empty line, once it is whole.
[[nodiscard]] std::optional<std::size_t> head_length(std::string_view text);
// A field of a head, whatever the case of its name; "" if it is not there.
[[nodiscard]] std::string_view field(std::string_view head, std::string_view name);
// A non-negative number at the beginning of `text`; 0 if there is none.
[[nodiscard]] std::int64_t number(std::string_view text);

// Microseconds of CLOCK_MONOTONIC: the same in all processes of a machine.
[[nodiscard]] std::int64_t now_us();

}  // namespace hg::bench
